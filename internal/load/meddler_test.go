package load

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// meddler is a proxy before a broker that loses, doubles and swaps deliveries by a seeded plan, and keeps count. It must
// meet automatic acknowledgements, since it does not mend tags.
type meddler struct {
	listener net.Listener
	broker   string
	mu       sync.Mutex
	chance   *rand.Rand
	each     float64 // chance of each of the three
	lost     int64
	doubled  int64
	swapped  int64
	stall    time.Duration // before the 1000th delivery
	seen     int64
	group    sync.WaitGroup
}

func meddle(t *testing.T, broker string, seed uint64, each float64) *meddler {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meddler{listener: listener, broker: broker, chance: rand.New(rand.NewPCG(seed, seed)), each: each}
	m.group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			m.group.Go(func() { m.join(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		m.group.Wait()
	})
	return m
}

func (m *meddler) join(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", m.broker)
	if err != nil {
		return
	}
	defer server.Close()
	m.group.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	in, out := bufio.NewReader(server), bufio.NewWriter(client)
	held := map[uint16][]byte{}    // channel: a delivery that waits for the next one
	partial := map[uint16][]byte{} // channel: method and header of a delivery
	for {
		frame, err := readFrame(in)
		if err != nil {
			_ = out.Flush()
			return
		}
		channel := binary.BigEndian.Uint16(frame[1:])
		body := frame[7 : len(frame)-1]
		switch {
		case frame[0] == frameMethod && len(body) > 4 && binary.BigEndian.Uint32(body) == classBasic<<16|methodDeliver,
			frame[0] == frameHeader && partial[channel] != nil:
			partial[channel] = append(partial[channel], frame...)
			continue
		case frame[0] == frameBody && partial[channel] != nil:
			whole := append(partial[channel], frame...)
			partial[channel] = nil
			m.pass(out, held, channel, whole)
		default:
			_, _ = out.Write(frame)
		}
		if in.Buffered() == 0 {
			_ = out.Flush()
		}
	}
}

func (m *meddler) pass(out *bufio.Writer, held map[uint16][]byte, channel uint16, whole []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen++; m.seen == 1000 && m.stall > 0 {
		_ = out.Flush()
		time.Sleep(m.stall)
	}
	if before := held[channel]; before != nil {
		held[channel] = nil
		m.swapped++
		_, _ = out.Write(whole)
		_, _ = out.Write(before)
		return
	}
	switch p := m.chance.Float64(); {
	case len(whole) < 150: // a stranger's
	case p < m.each:
		m.lost++
		return
	case p < 2*m.each:
		m.doubled++
		_, _ = out.Write(whole)
	case p < 3*m.each && m.seen < 1500: // a later one might find nobody to swap with
		held[channel] = whole
		return
	}
	_, _ = out.Write(whole)
}

func readFrame(in *bufio.Reader) ([]byte, error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	frame := append(head, make([]byte, binary.BigEndian.Uint32(head[3:])+1)...)
	_, err := io.ReadFull(in, frame[7:])
	return frame, err
}
