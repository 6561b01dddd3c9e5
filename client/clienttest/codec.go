package clienttest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The kinds of frames, and the octet that ends each.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE

	frameHead = 7 // kind, channel, size
	frameEdge = 8 // head and end
)

// methodID is the class in the upper and the method in the lower half.
type methodID uint32

func (m methodID) class() uint16  { return uint16(m >> 16) }
func (m methodID) method() uint16 { return uint16(m) }

const (
	connectionStart     methodID = 10<<16 | 10
	connectionStartOK   methodID = 10<<16 | 11
	connectionTune      methodID = 10<<16 | 30
	connectionTuneOK    methodID = 10<<16 | 31
	connectionOpen      methodID = 10<<16 | 40
	connectionOpenOK    methodID = 10<<16 | 41
	connectionClose     methodID = 10<<16 | 50
	connectionCloseOK   methodID = 10<<16 | 51
	connectionBlocked   methodID = 10<<16 | 60
	connectionUnblocked methodID = 10<<16 | 61

	channelOpen    methodID = 20<<16 | 10
	channelOpenOK  methodID = 20<<16 | 11
	channelFlow    methodID = 20<<16 | 20
	channelFlowOK  methodID = 20<<16 | 21
	channelClose   methodID = 20<<16 | 40
	channelCloseOK methodID = 20<<16 | 41

	exchangeDeclare   methodID = 40<<16 | 10
	exchangeDeclareOK methodID = 40<<16 | 11
	exchangeDelete    methodID = 40<<16 | 20
	exchangeDeleteOK  methodID = 40<<16 | 21
	exchangeBind      methodID = 40<<16 | 30
	exchangeBindOK    methodID = 40<<16 | 31
	exchangeUnbind    methodID = 40<<16 | 40
	exchangeUnbindOK  methodID = 40<<16 | 51

	queueDeclare   methodID = 50<<16 | 10
	queueDeclareOK methodID = 50<<16 | 11
	queueBind      methodID = 50<<16 | 20
	queueBindOK    methodID = 50<<16 | 21
	queuePurge     methodID = 50<<16 | 30
	queuePurgeOK   methodID = 50<<16 | 31
	queueDelete    methodID = 50<<16 | 40
	queueDeleteOK  methodID = 50<<16 | 41
	queueUnbind    methodID = 50<<16 | 50
	queueUnbindOK  methodID = 50<<16 | 51

	basicQos          methodID = 60<<16 | 10
	basicQosOK        methodID = 60<<16 | 11
	basicConsume      methodID = 60<<16 | 20
	basicConsumeOK    methodID = 60<<16 | 21
	basicCancel       methodID = 60<<16 | 30
	basicCancelOK     methodID = 60<<16 | 31
	basicPublish      methodID = 60<<16 | 40
	basicReturn       methodID = 60<<16 | 50
	basicDeliver      methodID = 60<<16 | 60
	basicGet          methodID = 60<<16 | 70
	basicGetOK        methodID = 60<<16 | 71
	basicGetEmpty     methodID = 60<<16 | 72
	basicAck          methodID = 60<<16 | 80
	basicReject       methodID = 60<<16 | 90
	basicRecoverAsync methodID = 60<<16 | 100
	basicRecover      methodID = 60<<16 | 110
	basicRecoverOK    methodID = 60<<16 | 111
	basicNack         methodID = 60<<16 | 120

	confirmSelect   methodID = 85<<16 | 10
	confirmSelectOK methodID = 85<<16 | 11
)

const classBasic = 60

type frame struct {
	kind    byte
	channel uint16
	payload []byte // valid until the next frame is read
}

// frameReader cuts a stream into frames. It reads as much as there is at once, so that many small frames cost one
// call of the system.
type frameReader struct {
	src  io.Reader
	buf  []byte
	r, w int // what is read and not yet used is buf[r:w]
	max  int // the size of the largest frame with its edges
}

const readAhead = 64 << 10

func newFrameReader(src io.Reader, maxFrame int) *frameReader {
	return &frameReader{src: src, buf: make([]byte, readAhead), max: maxFrame}
}

// need reads until n bytes are there.
func (f *frameReader) need(n int) error {
	if f.w-f.r >= n {
		return nil
	}
	if f.r > 0 {
		copy(f.buf, f.buf[f.r:f.w])
		f.r, f.w = 0, f.w-f.r
	}
	if n > len(f.buf) {
		f.buf = append(f.buf, make([]byte, n-len(f.buf))...)
	}
	for f.w < n {
		got, err := f.src.Read(f.buf[f.w:])
		f.w += got
		if err != nil && f.w < n {
			if err == io.EOF && f.w > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// size is that of the next frame with its edges, when its head is there.
func (f *frameReader) size() int {
	return int(binary.BigEndian.Uint32(f.buf[f.r+3:])) + frameEdge
}

// buffered tells that next will not have to read.
func (f *frameReader) buffered() bool {
	if f.w-f.r < frameHead {
		return false
	}
	size := f.size()
	return size > f.max || f.w-f.r >= size
}

// next fails with an *amqpError when the client breaks the rules of framing, else with the error of the socket.
func (f *frameReader) next() (frame, error) {
	if err := f.need(frameHead); err != nil {
		return frame{}, err
	}
	size := f.size()
	if size > f.max {
		return frame{}, hard(codeFrameError, "frame of %d bytes is larger than frame_max %d", size, f.max)
	}
	if err := f.need(size); err != nil {
		return frame{}, err
	}
	b := f.buf[f.r : f.r+size]
	if b[size-1] != frameEnd {
		return frame{}, hard(codeFrameError, "invalid frame end marker %#x", b[size-1])
	}
	f.r += size
	return frame{kind: b[0], channel: binary.BigEndian.Uint16(b[1:]), payload: b[frameHead : size-1]}, nil
}

// protocolHeader reads the eight bytes that begin a connection.
func (f *frameReader) protocolHeader() ([8]byte, error) {
	if err := f.need(8); err != nil {
		return [8]byte{}, err
	}
	header := [8]byte(f.buf[f.r:])
	f.r += 8
	return header, nil
}

// beginFrame returns where the frame starts, for endFrame.
func beginFrame(b []byte, kind byte, channel uint16) ([]byte, int) {
	return append(b, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0), len(b)
}

func beginMethod(b []byte, channel uint16, id methodID) ([]byte, int) {
	b, start := beginFrame(b, frameMethod, channel)
	return appendLong(b, uint32(id)), start
}

func endFrame(b []byte, start int) []byte {
	return append(patchLength(b, start+3), frameEnd)
}

// appendContent is the header and as many body frames as frameMax wants. frameMax zero has no limit.
func appendContent(b []byte, channel uint16, properties, body []byte, frameMax int) []byte {
	b, start := beginFrame(b, frameHeader, channel)
	b = appendLong(b, classBasic<<16)
	b = appendLonglong(b, uint64(len(body)))
	b = endFrame(append(b, properties...), start)
	for len(body) > 0 {
		n := len(body)
		if frameMax > 0 {
			n = min(n, frameMax-frameEdge)
		}
		b, start = beginFrame(b, frameBody, channel)
		b = endFrame(append(b, body[:n]...), start)
		body = body[n:]
	}
	return b
}

// longstr is sent as a long string, where string is a short one.
type longstr string

// appendArguments encodes the arguments of methods that are not in a hurry.
func appendArguments(b []byte, arguments ...any) []byte {
	for _, argument := range arguments {
		switch v := argument.(type) {
		case bool:
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		case uint8:
			b = append(b, v)
		case uint16:
			b = appendShort(b, v)
		case uint32:
			b = appendLong(b, v)
		case uint64:
			b = appendLonglong(b, v)
		case string:
			b = appendShortString(b, v)
		case longstr:
			b = appendLongString(b, string(v))
		case Table:
			var err error
			if b, err = appendTable(b, v); err != nil {
				panic(err) // only tables made here are sent as arguments
			}
		default:
			panic(fmt.Sprintf("clienttest: no argument of type %T", v))
		}
	}
	return b
}
