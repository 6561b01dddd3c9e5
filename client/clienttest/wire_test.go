package clienttest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rawClient speaks the protocol by hand, also wrongly.
type rawClient struct {
	testing.TB
	conn net.Conn
	in   *frameReader
}

func rawDial(t testing.TB, b *Broker) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &rawClient{TB: t, conn: c, in: newFrameReader(c, 1<<20)}
}

// rawOpen is a connection with channel 1.
func rawOpen(t testing.TB, b *Broker) *rawClient {
	t.Helper()
	c := rawDial(t, b)
	c.greet(0)
	c.method(1, channelOpen, "")
	c.want(channelOpenOK)
	return c
}

func (c *rawClient) greet(heartbeat uint16) {
	c.Helper()
	c.write([]byte("AMQP\x00\x00\x09\x01"))
	c.want(connectionStart)
	c.method(0, connectionStartOK, Table{"capabilities": Table{"authentication_failure_close": true}}, "PLAIN", longstr("\x00guest\x00guest"), "en_US")
	c.want(connectionTune)
	c.method(0, connectionTuneOK, uint16(2047), uint32(131072), heartbeat)
	c.method(0, connectionOpen, "/", "", uint8(0))
	c.want(connectionOpenOK)
}

func (c *rawClient) write(b []byte) {
	c.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.Fatal(err)
	}
}

func methodFrame(channel uint16, id methodID, arguments ...any) []byte {
	b, start := beginMethod(nil, channel, id)
	return endFrame(appendArguments(b, arguments...), start)
}

func (c *rawClient) method(channel uint16, id methodID, arguments ...any) {
	c.Helper()
	c.write(methodFrame(channel, id, arguments...))
}

func publishFrames(channel uint16, exchange, key string, body []byte) []byte {
	b := methodFrame(channel, basicPublish, uint16(0), exchange, key, uint8(0))
	return appendContent(b, channel, []byte{0, 0}, body, 131072)
}

func (c *rawClient) next() frame {
	c.Helper()
	f, err := c.in.next()
	if err != nil {
		c.Fatal(err)
	}
	return f
}

// want reads up to the next method, which must be this one, and returns its arguments.
func (c *rawClient) want(id methodID) *cursor {
	c.Helper()
	for {
		f := c.next()
		if f.kind != frameMethod {
			continue
		}
		a := &cursor{b: f.payload}
		if got := methodID(a.long()); got != id {
			c.Fatalf("got method %d.%d (%q), want %d.%d", got.class(), got.method(), f.payload, id.class(), id.method())
		}
		return a
	}
}

func (c *rawClient) wantEnd() {
	c.Helper()
	if f, err := c.in.next(); err == nil {
		c.Fatalf("got a frame of type %d, want the end", f.kind)
	}
}

func TestMalformedFrames(t *testing.T) {
	heartbeat, _ := beginFrame(nil, frameHeartbeat, 0)
	heartbeat = append(heartbeat, frameEnd)
	strange := append([]byte{4}, heartbeat[1:]...)
	wrongEnd := append(append([]byte{}, heartbeat[:7]...), 0)
	tooLarge := []byte{frameMethod, 0, 1, 0xff, 0xff, 0xff, 0xff}
	publish := methodFrame(1, basicPublish, uint16(0), "", "q", uint8(0))
	header := func(payload ...byte) []byte {
		b, start := beginFrame(nil, frameHeader, 1)
		return endFrame(append(b, payload...), start)
	}
	body := func(n int) []byte {
		b, start := beginFrame(nil, frameBody, 1)
		return endFrame(append(b, make([]byte, n)...), start)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		send []byte
		code uint16
	}{
		"unknown type":             {strange, codeFrameError},
		"wrong end":                {wrongEnd, codeFrameError},
		"too large":                {tooLarge, codeFrameError},
		"heartbeat on a channel":   {append([]byte{8, 0, 1}, heartbeat[3:]...), codeFrameError},
		"short arguments":          {methodFrame(1, queueDeclare, uint16(0), "q"), codeSyntaxError},
		"short method":             {endFrame([]byte{frameMethod, 0, 1, 0, 0, 0, 0, 1}, 0), codeCommandInvalid},
		"unknown method":           {methodFrame(1, 60<<16|99), codeCommandInvalid},
		"transactions":             {methodFrame(1, 90<<16|10), codeNotImplemented},
		"channel not open":         {methodFrame(7, basicQos, uint32(0), uint16(1), false), codeChannelError},
		"channel opened twice":     {methodFrame(1, channelOpen, ""), codeCommandInvalid},
		"body without publish":     {body(3), codeUnexpectedFrame},
		"body without header":      {join(publish, body(3)), codeUnexpectedFrame},
		"method within a publish":  {join(publish, methodFrame(1, basicQos, uint32(0), uint16(1), false)), codeUnexpectedFrame},
		"malformed header":         {join(publish, header(0, 60)), codeSyntaxError},
		"header of another class":  {join(publish, header(0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), codeSyntaxError},
		"malformed properties":     {join(publish, header(0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0)), codeSyntaxError},
		"malformed table":          {join(publish, header(0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 3, 1, 'a', '?')), codeSyntaxError},
		"body longer than header":  {join(publish, header(0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0), body(3)), codeUnexpectedFrame},
		"start-ok twice":           {methodFrame(0, connectionStartOK, Table{}, "PLAIN", longstr(""), "en_US"), codeCommandInvalid},
		"content on channel 0":     {endFrame(append([]byte{frameBody, 0, 0, 0, 0, 0, 0}, 1), 0), codeUnexpectedFrame},
		"body of a closed channel": {join(methodFrame(1, channelClose, uint16(0), "", uint32(0)), body(3)), codeUnexpectedFrame},
	} {
		t.Run(name, func(t *testing.T) {
			b := Start(t)
			client := rawOpen(t, b)
			client.write(c.send)
			if name == "body of a closed channel" {
				client.want(channelCloseOK)
			}
			a := client.want(connectionClose)
			if code := a.short(); code != c.code {
				t.Errorf("got %d %q, want %d", code, a.shortString(), c.code)
			}
			if name != "wrong end" && name != "too large" { // after these there is no next frame
				client.method(0, connectionCloseOK)
			}
			client.wantEnd()
			b.WaitFor(t, "end", func() bool { return len(b.Connections()) == 0 })
		})
	}
}

func TestOtherProtocolIsToldTheVersion(t *testing.T) {
	c := rawDial(t, Start(t))
	c.write([]byte("AMQP\x00\x01\x00\x00"))
	answer, err := io.ReadAll(c.conn)
	if err != nil || string(answer) != "AMQP\x00\x00\x09\x01" {
		t.Fatalf("got %q, %v", answer, err)
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	b := Start(t, Options{Heartbeat: time.Second})
	c := rawDial(t, b)
	c.greet(1)
	for range 2 {
		if f := c.next(); f.kind != frameHeartbeat {
			t.Fatalf("got a frame of type %d", f.kind)
		}
	}
	// A client that is silent is lost after two intervals.
	b.WaitFor(t, "end of the silent connection", func() bool { return len(b.Connections()) == 0 })
}

func TestCloseTimeout(t *testing.T) {
	b := Start(t, Options{CloseTimeout: 50 * time.Millisecond})
	c := rawOpen(t, b)
	c.method(7, basicQos, uint32(0), uint16(1), false)
	c.want(connectionClose)
	b.WaitFor(t, "end of a connection that does not answer", func() bool { return len(b.Connections()) == 0 })
}

func TestTableRoundTrip(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(), rapid.Uint16().AsAny(),
		rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
		rapid.Custom(func(t *rapid.T) any { return math.Float32frombits(rapid.Uint32Range(0, 0x7f000000).Draw(t, "f")) }),
		rapid.Custom(func(t *rapid.T) any { return Decimal{rapid.Uint8().Draw(t, "scale"), rapid.Int32().Draw(t, "value")} }),
		rapid.Custom(func(t *rapid.T) any { return time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "time"), 0) }),
		rapid.Custom(func(t *rapid.T) any { return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...) }),
		rapid.Just[any](nil),
	)
	var value func(depth int) *rapid.Generator[any]
	table := func(depth int) *rapid.Generator[Table] {
		return rapid.Custom(func(t *rapid.T) Table {
			return Table(rapid.MapOfN(rapid.StringN(0, 20, 60), value(depth), 0, 4).Draw(t, "table"))
		})
	}
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		array := rapid.Custom(func(t *rapid.T) any { return append([]any{}, rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "array")...) })
		return rapid.OneOf(scalar, array, rapid.Custom(func(t *rapid.T) any { return table(depth-1).Draw(t, "inner") }))
	}
	rapid.Check(t, func(t *rapid.T) {
		want := table(2).Draw(t, "table")
		b, err := appendTable(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		c := cursor{b: b}
		if got := c.table(); c.bad || len(c.b) > 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %#v\nwant %#v", got, want)
		}
		inner := cursor{b: b[4:]}
		if !inner.skipFields() {
			t.Fatal("what can be read cannot be skipped")
		}
	})
}

func TestTableRefuses(t *testing.T) {
	if _, err := appendTable(nil, Table{"a": struct{}{}}); err == nil {
		t.Error("a struct was encoded")
	}
	if _, err := appendTable(nil, Table{string(make([]byte, 256)): 1}); err == nil {
		t.Error("a long name was encoded")
	}
}

func TestWithCountKeepsProperties(t *testing.T) {
	for _, p := range []Properties{
		{}, {ContentType: "a", ContentEncoding: "b", DeliveryMode: 2, MessageID: "m"}, {Headers: Table{"a": "b"}, AppID: "x"},
	} {
		raw, err := p.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := decodeProperties(withCount(withCount(raw, "one", 1), "two", 2))
		want := p
		want.Headers = Table{"one": int64(1), "two": int64(2)}
		for k, v := range p.Headers {
			want.Headers[k] = v
		}
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// FuzzFrames holds that whatever a client sends is read as frames or refused, and that what the fast reader of properties
// takes the slow one can decode.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add(publishFrames(1, "x", "k", []byte("body")))
	f.Add(methodFrame(1, queueDeclare, uint16(0), "q", uint8(2), Table{"a": []any{int64(1), Table{"b": nil}}}))
	full := Properties{ContentType: "c", Headers: Table{"a": Table{"b": []any{true}}}, Timestamp: time.Unix(1, 0), Expiration: "1"}
	raw, _ := full.encode()
	f.Add(appendContent(nil, 1, raw, []byte("x"), 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := newFrameReader(bytes.NewReader(data), 4096)
		read := 0
		for {
			frame, err := in.next()
			if err != nil {
				var refused *amqpError
				if !errors.As(err, &refused) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("got %v", err)
				}
				break
			}
			read += len(frame.payload) + frameEdge
			if frame.kind == frameHeader && len(frame.payload) > 12 {
				_, quick := readFacts(frame.payload[12:])
				if _, whole := decodeProperties(frame.payload[12:]); quick != whole {
					t.Fatalf("quick %t, whole %t", quick, whole)
				}
			}
		}
		if read > len(data) {
			t.Fatalf("%d bytes of frames in %d", read, len(data))
		}
	})
}

// FuzzConnection holds that an open connection survives whatever is sent, and that the broker does.
func FuzzConnection(f *testing.F) {
	f.Add(publishFrames(1, "", "q", []byte("body")))
	f.Add(methodFrame(1, basicConsume, uint16(0), "q", "t", uint8(0), Table{}))
	f.Add(methodFrame(1, basicNack, uint64(0), uint8(3)))
	f.Add(methodFrame(1, queueDeclare, uint16(0), "q", uint8(2), Table{"x-max-length": int8(-1)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := Start(t)
		if err := b.DeclareQueue("q", nil); err != nil {
			t.Fatal(err)
		}
		c := rawOpen(t, b)
		c.write(data)
		_ = c.conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c.conn)
		b.WaitFor(t, "end", func() bool { return len(b.Connections()) == 0 })
		rawOpen(t, b)
	})
}

// BenchmarkPublish is the broker alone: frames that are encoded before, confirms that are hardly looked at.
func BenchmarkPublish(b *testing.B) {
	broker := Start(b)
	if err := broker.DeclareQueue("q", Table{"x-max-length": 1000}); err != nil {
		b.Fatal(err)
	}
	c := rawOpen(b, broker)
	c.method(1, confirmSelect, false)
	c.want(confirmSelectOK)
	const burst = 100
	frames := bytes.Repeat(publishFrames(1, "", "q", make([]byte, 256)), burst)
	done := make(chan error, 1)
	n := (b.N + burst - 1) / burst * burst
	b.ReportAllocs()
	b.ResetTimer()
	_ = c.conn.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		for {
			f, err := c.in.next()
			if err != nil || binary.BigEndian.Uint64(f.payload[4:]) >= uint64(n) {
				done <- err
				return
			}
		}
	}()
	for i := 0; i < n; i += burst {
		c.write(frames)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkConsume is the broker alone, with a prefetch of 1000 and one ack for 100.
func BenchmarkConsume(b *testing.B) {
	broker := Start(b)
	if err := broker.DeclareQueue("q", nil); err != nil {
		b.Fatal(err)
	}
	messages := make([]Message, b.N)
	body := make([]byte, 256)
	for i := range messages {
		messages[i].Body = body
	}
	if err := broker.Publish("q", messages...); err != nil {
		b.Fatal(err)
	}
	c := rawOpen(b, broker)
	c.method(1, basicQos, uint32(0), uint16(1000), false)
	c.want(basicQosOK)
	_ = c.conn.SetDeadline(time.Now().Add(time.Minute))
	b.ReportAllocs()
	b.ResetTimer()
	c.method(1, basicConsume, uint16(0), "q", "t", uint8(0), Table{})
	c.want(basicConsumeOK)
	for tag := uint64(0); tag < uint64(b.N); {
		if f := c.next(); f.kind == frameMethod {
			if tag++; tag%100 == 0 {
				c.method(1, basicAck, tag, true)
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
