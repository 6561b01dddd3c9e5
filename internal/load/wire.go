package load

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// AMQP 0-9-1: frame types, the frame's end and the methods of class basic that go past amqp091-go.
const (
	frameMethod, frameHeader, frameBody = 1, 2, 3
	frameEnd                            = 0xCE
	frameHead                           = 7 // type, channel, size

	classBasic    = 60
	methodPublish = 40
	methodReturn  = 50
	methodDeliver = 60
	methodAck     = 80
	methodNack    = 120
)

// flushAt is how much waits for the socket at most while a worker gathers messages that are due together, in bytes.
const flushAt = 64 << 10

// receiver takes what a channel receives. It is called by the goroutine that reads the connection, and must not block on
// anything but the same connection's socket.
type receiver interface {
	// delivered gets a message; body is the receiver's for the time of the call.
	delivered(tag uint64, redelivered bool, body []byte)
	// returned gets a message that could not be routed.
	returned(body []byte)
	// confirmed gets a publisher confirm, or its refusal.
	confirmed(tag uint64, multiple, ack bool)
	// quiet says that nothing more has arrived so far: what was put off for company is due now.
	quiet()
}

// wire is the connection under amqp091-go. It takes the hot frames of registered channels out of what is read, and lets
// workers write theirs between amqp091-go's frames.
type wire struct {
	net.Conn
	in    *bufio.Reader
	rest  int  // bytes of the frame at hand that amqp091-go still gets
	raw   bool // the peer does not speak AMQP frames: amqp091-go shall say so
	busy  []*lane
	lanes atomic.Pointer[[]*lane]

	idle     atomic.Int64 // how long the peer may be silent, in ns; 0 for ever
	extended time.Time    // when the deadline of reads was set last

	mu  sync.Mutex
	out []byte
	err error

	sent, received atomic.Int64 // bytes
	held           atomic.Int64 // ns in which a publisher was in a write, or waited for one
	pushed         int64        // when a publisher's last write ended, in ns of the run's clock
}

// lane is one channel whose hot frames are diverted.
type lane struct {
	to     receiver
	active bool // since the last quiet

	kind        uint16 // of the content that is being read: methodDeliver or methodReturn; 0 none
	tag         uint64
	redelivered bool
	left        int
	body        []byte
}

func newWire(c net.Conn, readBuffer int) *wire {
	w := &wire{Conn: c}
	w.in = bufio.NewReaderSize(socket{w}, readBuffer)
	w.lanes.Store(&[]*lane{})
	return w
}

// register diverts the hot frames of a channel. It comes before the method that starts them.
func (w *wire) register(channel uint16, to receiver) {
	lanes := slices.Clone(*w.lanes.Load())
	for len(lanes) <= int(channel) {
		lanes = append(lanes, nil)
	}
	lanes[channel] = &lane{to: to}
	w.lanes.Store(&lanes)
}

// socket reads the connection and keeps its deadline: amqp091-go does not see the frames that prove that the peer lives.
type socket struct{ w *wire }

func (s socket) Read(p []byte) (int, error) {
	if idle := time.Duration(s.w.idle.Load()); idle > 0 {
		if now := time.Now(); now.Sub(s.w.extended) > idle/8 {
			s.w.extended = now
			_ = s.w.Conn.SetReadDeadline(now.Add(idle))
		}
	}
	n, err := s.w.Conn.Read(p)
	s.w.received.Add(int64(n))
	return n, err
}

// SetReadDeadline takes amqp091-go's word for how long the peer may be silent.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.idle.Store(int64(max(0, time.Until(t))))
	return nil
}

// SetDeadline ends the deadline of the handshake.
func (w *wire) SetDeadline(t time.Time) error {
	w.idle.Store(0)
	return w.Conn.SetDeadline(t)
}

// Read gives amqp091-go what is not diverted.
func (w *wire) Read(p []byte) (int, error) {
	for w.rest == 0 && !w.raw {
		if err := w.frame(); err != nil {
			return 0, err
		}
	}
	if w.raw {
		return w.in.Read(p)
	}
	n, err := w.in.Read(p[:min(len(p), w.rest)])
	w.rest -= n
	return n, err
}

// frameHeartbeat is the last type of frame that there is.
const frameHeartbeat = 8

// frame diverts the next frame, or leaves it for amqp091-go.
func (w *wire) frame() error {
	if w.in.Buffered() < frameHead {
		w.calm()
	}
	head, err := w.in.Peek(frameHead)
	if err != nil {
		return err
	}
	kind, channel, size := head[0], binary.BigEndian.Uint16(head[1:]), int(binary.BigEndian.Uint32(head[3:]))
	if kind > frameBody && kind != frameHeartbeat {
		w.raw = true
		return nil
	}
	l := w.laneOf(channel)
	total := frameHead + size + 1
	switch {
	case l != nil && kind == frameBody && l.kind != 0:
		return w.content(l, size)
	case l == nil || kind == frameBody || total > w.in.Size():
		w.rest = total
		return nil
	}
	return w.whole(l, kind, total)
}

func (w *wire) laneOf(channel uint16) *lane {
	if lanes := *w.lanes.Load(); int(channel) < len(lanes) {
		return lanes[channel]
	}
	return nil
}

// whole reads a method or header frame of a diverted channel, total bytes long.
func (w *wire) whole(l *lane, kind byte, total int) error {
	if w.in.Buffered() < total {
		w.calm()
	}
	frame, err := w.in.Peek(total)
	if err != nil {
		return err
	}
	if !w.small(l, kind, frame[frameHead:total-1]) {
		w.rest = total
		return nil
	}
	_, err = w.in.Discard(total)
	return err
}

// small handles a method or header frame of a diverted channel. It is false when the frame is none of the hot ones.
func (w *wire) small(l *lane, kind byte, payload []byte) bool {
	if kind == frameHeader {
		if l.kind == 0 || len(payload) < 12 {
			return false
		}
		l.left, l.body = int(binary.BigEndian.Uint64(payload[4:])), l.body[:0]
		if l.left == 0 {
			w.complete(l)
		}
		return true
	}
	if len(payload) < 4 || binary.BigEndian.Uint16(payload) != classBasic {
		return false
	}
	method, rest := binary.BigEndian.Uint16(payload[2:]), payload[4:]
	switch {
	case method == methodDeliver && len(rest) > int(rest[0])+9:
		rest = rest[1+int(rest[0]):] // the consumer's tag
		l.kind, l.tag, l.redelivered = method, binary.BigEndian.Uint64(rest), rest[8]&1 != 0
	case method == methodReturn:
		l.kind = method
	case (method == methodAck || method == methodNack) && len(rest) >= 9:
		w.touch(l)
		l.to.confirmed(binary.BigEndian.Uint64(rest), rest[8]&1 != 0, method == methodAck)
	default:
		return false
	}
	return true
}

// content reads a body frame of size bytes.
func (w *wire) content(l *lane, size int) error {
	if _, err := w.in.Discard(frameHead); err != nil {
		return err
	}
	at := len(l.body)
	l.body = slices.Grow(l.body, size)[:at+size]
	if w.in.Buffered() < size+1 {
		w.calm()
	}
	if _, err := io.ReadFull(w.in, l.body[at:]); err != nil {
		return err
	}
	if _, err := w.in.Discard(1); err != nil {
		return err
	}
	if l.left -= size; l.left <= 0 {
		w.complete(l)
	}
	return nil
}

func (w *wire) complete(l *lane) {
	kind := l.kind
	l.kind = 0
	w.touch(l)
	if kind == methodDeliver {
		l.to.delivered(l.tag, l.redelivered, l.body)
	} else {
		l.to.returned(l.body)
	}
}

func (w *wire) touch(l *lane) {
	if !l.active {
		l.active = true
		w.busy = append(w.busy, l)
	}
}

// calm comes before a read that may wait.
func (w *wire) calm() {
	for _, l := range w.busy {
		l.active = false
		l.to.quiet()
	}
	w.busy = w.busy[:0]
}

// Write sends frames of amqp091-go, after what workers have gathered.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = append(w.out, p...)
	if err := w.flushLocked(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush sends what was gathered; it blocks while the peer does not read.
func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushLocked()
}

// push is flush for a publisher that came at began. It tells when it ended, and counts the time before anybody who waits for the
// lock can go on: publishers that share the connection were held by it as well. Time that several wait counts once.
func (w *wire) push(c clock, began int64) (ended int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err = w.flushLocked()
	ended = c.now()
	w.held.Add(ended - max(began, w.pushed))
	w.pushed = ended
	return ended, err
}

func (w *wire) flushLocked() error {
	if w.err != nil || len(w.out) == 0 {
		return w.err
	}
	n, err := w.Conn.Write(w.out)
	w.sent.Add(int64(n))
	w.out = w.out[:0]
	if err != nil {
		w.err = err
		_ = w.Conn.Close() // reading must end too
	}
	return err
}

// gather adds a message to what is sent next, and tells how many bytes that is. At flushAt the caller must flush.
func (w *wire) gather(m *message, stamp *stamp) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.out = m.appendTo(w.out, stamp)
	}
	return len(w.out), w.err
}

// ack gathers a basic.ack.
func (w *wire) ack(channel uint16, tag uint64, multiple bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	frame := [21]byte{0: frameMethod, 6: 13, 8: classBasic, 10: methodAck, 20: frameEnd}
	binary.BigEndian.PutUint16(frame[1:], channel)
	binary.BigEndian.PutUint64(frame[11:], tag)
	if multiple {
		frame[19] = 1
	}
	w.out = append(w.out, frame[:]...)
	if len(w.out) >= flushAt {
		return w.flushLocked()
	}
	return nil
}

// message is a publish as it goes over the wire, made once and stamped for each sending.
type message struct {
	bytes []byte
	stamp int // where the body begins
}

// newMessage is a publish to an exchange with a body of size bytes (stampSize at least). frameMax is the largest frame.
func newMessage(channel uint16, exchange, key string, mandatory, persistent bool, size, frameMax int) *message {
	var b []byte
	frame := func(kind byte, payload []byte) {
		b = append(b, kind)
		b = binary.BigEndian.AppendUint16(b, channel)
		b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
		b = append(append(b, payload...), frameEnd)
	}
	method := []byte{0, classBasic, 0, methodPublish, 0, 0, byte(len(exchange))}
	method = append(append(append(method, exchange...), byte(len(key))), key...)
	bits, mode := byte(0), byte(1)
	if mandatory {
		bits = 1
	}
	if persistent {
		mode = 2
	}
	frame(frameMethod, append(method, bits))
	size = max(size, stampSize)
	header := binary.BigEndian.AppendUint64([]byte{0, classBasic, 0, 0}, uint64(size))
	frame(frameHeader, append(header, 0x10, 0, mode)) // the one property is the delivery mode
	m := &message{stamp: len(b) + frameHead}
	body := filler(size)
	for len(body) > 0 {
		n := min(len(body), frameMax-frameHead-1)
		frame(frameBody, body[:n])
		body = body[n:]
	}
	m.bytes = b
	return m
}

func (m *message) appendTo(out []byte, s *stamp) []byte {
	at := len(out)
	out = append(out, m.bytes...)
	s.put(out[at+m.stamp:])
	return out
}

// filler is text that a disk or a network does not compress to nothing.
func filler(size int) []byte {
	body := make([]byte, size)
	state := uint64(0x9E3779B97F4A7C15)
	for i := range body {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		body[i] = byte(state)
	}
	return body
}

// stampSize is the size of a stamp, and of the smallest body, in bytes.
const stampSize = 32

// stamp is the head of every body.
type stamp struct {
	run       uint32 // of this run alone: others' messages do not have it
	publisher uint16
	queue     uint16
	sequence  uint64 // of the publisher in the queue, from 1
	intended  int64  // when it was due, in ns of the run's clock
	sent      int64  // when it was written, in ns of the run's clock
}

func (s *stamp) put(b []byte) {
	_ = b[stampSize-1]
	binary.LittleEndian.PutUint32(b, s.run)
	binary.LittleEndian.PutUint16(b[4:], s.publisher)
	binary.LittleEndian.PutUint16(b[6:], s.queue)
	binary.LittleEndian.PutUint64(b[8:], s.sequence)
	binary.LittleEndian.PutUint64(b[16:], uint64(s.intended))
	binary.LittleEndian.PutUint64(b[24:], uint64(s.sent))
}

// readStamp is false for a body that is not of this run.
func readStamp(b []byte, run uint32) (s stamp, ok bool) {
	if len(b) < stampSize || binary.LittleEndian.Uint32(b) != run {
		return stamp{}, false
	}
	return stamp{
		run: run, publisher: binary.LittleEndian.Uint16(b[4:]), queue: binary.LittleEndian.Uint16(b[6:]),
		sequence: binary.LittleEndian.Uint64(b[8:]),
		intended: int64(binary.LittleEndian.Uint64(b[16:])), sent: int64(binary.LittleEndian.Uint64(b[24:])),
	}, true
}
