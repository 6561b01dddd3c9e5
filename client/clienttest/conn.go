package clienttest

import (
	"errors"
	"maps"
	"net"
	"slices"
	"time"
)

// connState is how far a connection has come.
type connState int

const (
	awaitStartOK connState = iota
	awaitTuneOK
	awaitOpen
	running
	awaitCloseOK // the server has sent connection.close
	gone         // what is left is to write the last bytes
)

const (
	// highWater is how much may wait to be written before deliveries stop.
	highWater = 1 << 20
	// keptBuffer is the largest buffer that is kept for the next write.
	keptBuffer = 2 << 20
	// frameMinimum limits frames until a size is agreed on.
	frameMinimum = 8192
)

// conn is a connection of a client. One goroutine reads and handles frames, another writes what has piled up. All fields
// but those of the two are guarded by the broker's lock.
type conn struct {
	broker *Broker
	sock   *sock
	stream net.Conn // sock, or TLS over it
	in     *frameReader
	id     uint64
	opened time.Time

	state      connState
	vhost      *vhost
	user       string
	name       string
	properties Table
	able       Table // capabilities of the client
	frameMax   int   // 0 unlimited
	channelMax int
	heartbeat  time.Duration
	beats      *time.Timer
	channels   map[uint16]*channel
	failing    methodID // the method that is being handled

	blocked bool // it published under an alarm, and is not read

	out   []byte
	spare []byte // of the writer
	dirty bool
	wake  chan struct{}
	done  chan struct{}
	dead  bool
}

func (b *Broker) newConn(raw net.Conn) *conn {
	c := &conn{
		broker: b, opened: time.Now(), properties: Table{}, channels: map[uint16]*channel{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.sock = b.gate.add(raw)
	c.stream = c.sock
	if b.options.TLS != nil {
		c.stream = serverTLS(c.sock, b.options.TLS)
	}
	c.in = newFrameReader(c.stream, frameMinimum)
	return c
}

// begin is the buffer to append frames to; the caller stores the longer one in out.
func (c *conn) begin() []byte {
	if !c.dirty {
		c.dirty = true
		c.broker.dirty = append(c.broker.dirty, c)
	}
	return c.out
}

func (c *conn) send(id methodID, arguments ...any) {
	b, start := beginMethod(c.begin(), 0, id)
	c.out = endFrame(appendArguments(b, arguments...), start)
}

// can tells whether the client announced a capability.
func (c *conn) can(capability string) bool {
	able, _ := c.able[capability].(bool)
	return able
}

// named tells whether the connection is meant; no names mean all.
func (c *conn) named(names []string) bool {
	return len(names) == 0 || slices.Contains(names, c.name)
}

// read is the goroutine that reads.
func (c *conn) read() {
	defer c.broker.wg.Done()
	b := c.broker
	err := c.greet()
	for err == nil {
		var f frame
		if f, err = c.in.next(); err == nil || asAMQP(err) != nil {
			err = c.batch(f, err)
		}
	}
	b.lock()
	defer b.unlock()
	if c.state != gone { // else the writer closes, after the last bytes
		c.kill(false)
	}
}

func asAMQP(err error) *amqpError {
	var e *amqpError
	errors.As(err, &e)
	return e
}

// errGone ends the reading of a connection that is closed.
var errGone = errors.New("clienttest: the connection is closed")

// batch handles a frame, and all others that have already come, under one lock.
func (c *conn) batch(f frame, err error) error {
	b := c.broker
	b.lock()
	defer b.unlock()
	for {
		for !c.dead && (b.paused || c.blocked) {
			b.settle()
			b.readers.Wait()
		}
		if c.dead {
			return errGone
		}
		if e := c.step(f, err); e != nil {
			return e
		}
		if !c.in.buffered() {
			return nil
		}
		f, err = c.in.next()
	}
}

// step handles one frame, or a breach of the rules of framing. It fails when there is nothing more to read.
func (c *conn) step(f frame, breach error) error {
	fault := asAMQP(breach)
	if fault == nil {
		fault = c.handle(f)
	} else {
		c.failing = 0
	}
	ch := c.channels[f.channel]
	switch {
	case c.dead || c.state == gone:
		return errGone
	case fault == nil:
		return nil
	case !fault.hard && ch != nil:
		ch.fail(fault, c.failing)
		return nil
	case breach != nil && c.state == awaitCloseOK:
		return errGone
	}
	c.fail(fault)
	if breach != nil { // there is no way to find the next frame
		return c.lastWords()
	}
	return nil
}

// greet waits for the protocol header.
func (c *conn) greet() error {
	header, err := c.in.protocolHeader()
	if err != nil {
		return err
	}
	b := c.broker
	b.lock()
	defer b.unlock()
	for !c.dead && b.paused {
		b.readers.Wait()
	}
	if c.dead {
		return errGone
	}
	if header != [8]byte{'A', 'M', 'Q', 'P', 0, 0, 9, 1} {
		c.out = append(c.begin(), 'A', 'M', 'Q', 'P', 0, 0, 9, 1)
		return c.lastWords()
	}
	c.send(connectionStart, uint8(0), uint8(9), b.serverProperties(), longstr("PLAIN AMQPLAIN"), longstr("en_US"))
	return nil
}

// lastWords lets the writer close the connection after what there is to write.
func (c *conn) lastWords() error {
	c.begin()
	c.teardown()
	c.state = gone
	return errGone
}

// fail ends the connection from the side of the server.
func (c *conn) fail(e *amqpError) {
	if c.state < running && e.code != codeAccessRefused && e.code != codeNotAllowed {
		_ = c.lastWords() // before it is open there is nothing to say it with
		return
	}
	c.teardown()
	c.state = awaitCloseOK
	c.sock.setIdle(c.broker.options.CloseTimeout)
	c.send(connectionClose, e.code, e.text, c.failing.class(), c.failing.method())
}

func (c *conn) handle(f frame) *amqpError {
	if c.state == awaitCloseOK {
		return c.awaitClose(f)
	}
	switch {
	case f.kind == frameHeartbeat:
		if f.channel != 0 || len(f.payload) > 0 {
			return hard(codeFrameError, "a heartbeat on channel %d with %d bytes", f.channel, len(f.payload))
		}
		return nil
	case f.kind < frameMethod || f.kind > frameBody:
		c.failing = 0
		return hard(codeFrameError, "type %d of frame is unknown", f.kind)
	case f.channel == 0:
		return c.handleZero(f)
	}
	ch := c.channels[f.channel]
	if ch == nil {
		return c.openChannel(f)
	}
	return ch.handle(f)
}

// awaitClose drops everything but the end of the connection.
func (c *conn) awaitClose(f frame) *amqpError {
	a := cursor{b: f.payload}
	if f.channel != 0 || f.kind != frameMethod {
		return nil
	}
	switch methodID(a.long()) {
	case connectionClose:
		c.send(connectionCloseOK)
		_ = c.lastWords()
	case connectionCloseOK:
		_ = c.lastWords()
	}
	return nil
}

func (c *conn) openChannel(f frame) *amqpError {
	a := cursor{b: f.payload}
	id := methodID(a.long())
	switch {
	case c.state != running || f.kind != frameMethod:
		return hard(codeUnexpectedFrame, "a frame of type %d on channel %d, which is not open", f.kind, f.channel)
	case id == channelCloseOK: // crossed with something else
		return nil
	case id != channelOpen:
		c.failing = id
		return hard(codeChannelError, "expected 'channel.open'")
	case c.channelMax > 0 && int(f.channel) > c.channelMax:
		return hard(codeNotAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)", len(c.channels), c.channelMax)
	}
	ch := newChannel(c, f.channel)
	c.channels[f.channel] = ch
	ch.send(channelOpenOK, longstr(""))
	return nil
}

// teardown gives back and forgets all that the connection has.
func (c *conn) teardown() {
	if c.beats != nil {
		c.beats.Stop()
	}
	numbers := slices.Sorted(maps.Keys(c.channels))
	for _, n := range numbers { // first, or one channel would get what the other gives back
		c.channels[n].dropConsumers()
	}
	for _, n := range numbers {
		c.channels[n].teardown()
	}
	clear(c.channels)
	if c.vhost == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.vhost.queues)) {
		if q := c.vhost.queues[name]; q != nil && q.owner == c {
			c.vhost.deleteQueue(q)
		}
	}
}

// kill ends the connection without a word. What is not yet written never will be.
func (c *conn) kill(abrupt bool) {
	if c.dead {
		return
	}
	c.teardown()
	c.dead = true
	c.state = gone
	if c.beats != nil {
		c.beats.Stop()
	}
	delete(c.broker.conns, c)
	close(c.done)
	c.sock.shutDown(abrupt)
	c.broker.readers.Broadcast()
}

// write is the goroutine that writes. What is appended while it writes goes out with the next call, so that many small
// frames cost one.
func (c *conn) write() {
	defer c.broker.wg.Done()
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		for more := true; more; {
			var err error
			if more, err = c.flush(); err != nil {
				c.broker.lock()
				c.kill(false)
				c.broker.unlock()
				return
			}
		}
	}
}

func (c *conn) flush() (more bool, err error) {
	b := c.broker
	b.mu.Lock()
	out := c.out
	c.out = c.spare[:0]
	last := c.state == gone
	b.mu.Unlock()
	if len(out) > 0 {
		if _, err = c.stream.Write(out); err != nil {
			return false, err
		}
	}
	if c.spare = out; cap(out) > keptBuffer {
		c.spare = nil
	}
	if last {
		return false, errGone
	}
	if len(out) >= highWater { // deliveries may have stopped for this
		b.lock()
		for _, n := range slices.Sorted(maps.Keys(c.channels)) {
			c.channels[n].resume()
		}
		b.unlock()
	}
	return len(out) > 0, nil
}

func (c *conn) beat() {
	b := c.broker
	b.lock()
	defer b.unlock()
	if c.dead || c.state == gone {
		return
	}
	if len(c.out) == 0 {
		out, start := beginFrame(c.begin(), frameHeartbeat, 0)
		c.out = endFrame(out, start)
	}
	c.beats.Reset(c.heartbeat / 2)
}
