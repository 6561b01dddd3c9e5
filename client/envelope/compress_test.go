package envelope

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// orders is n bytes of lines of JSON, as applications send them.
func orders(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `{"id":"%08x-%04x","order":%d,"customer":"c-%d","amount":%d.%02d,"currency":"EUR","state":"paid","at":"2026-03-%02dT10:%02d:%02dZ"}`+"\n",
			r.Uint32(), r.UintN(65536), i, r.UintN(5000), r.UintN(900), r.UintN(100), r.UintN(28)+1, r.UintN(60), r.UintN(60))
	}
	return b.Bytes()[:n]
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(b) // never fails
	return b
}

func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func TestCompressOnlyWhereItPays(t *testing.T) {
	mixed := append(make([]byte, 800), noise(9_200)...) // saves about 8 %
	for _, codec := range []Codec{Gzip, Zstd} {
		for _, c := range []struct {
			name    string
			body    []byte
			options []Option
			pays    bool
		}{
			{"nothing", nil, []Option{MinSize(0)}, false},
			{"below 1 KiB", orders(1023), nil, false},
			{"1 KiB", orders(1024), nil, true},
			{"small, with a smaller bound", orders(600), []Option{MinSize(100)}, true},
			{"large, with a larger bound", orders(6000), []Option{MinSize(10_000)}, false},
			{"noise", noise(10_000), nil, false},
			{"noise, whatever it saves", noise(10_000), []Option{MinSaving(0)}, false},
			{"saves too little", mixed, nil, false},
			{"saves what is asked", mixed, []Option{MinSaving(5)}, true},
			{"large", orders(3 << 20), nil, true},
		} {
			t.Run(codec.String()+", "+c.name, func(t *testing.T) {
				out, encoding := Compress(codec, c.body, c.options...)
				if !c.pays {
					if encoding != "" || !same(out, c.body) {
						t.Errorf("%d bytes as %q, want the body itself", len(out), encoding)
					}
					return
				}
				if encoding != codec.String() || len(out) >= len(c.body) || cap(out) > len(out)+len(out)/4+64 {
					t.Errorf("%d of %d bytes as %q, in room for %d", len(out), len(c.body), encoding, cap(out))
				}
				if back, err := Decompress(encoding, out, len(c.body)); err != nil || !bytes.Equal(back, c.body) {
					t.Errorf("does not come back: %v", err)
				}
				if _, err := Decompress(encoding, out, len(c.body)-1); !errors.Is(err, ErrTooLarge) {
					t.Errorf("with a byte less: %v", err)
				}
			})
		}
	}
	for _, codec := range []Codec{None, 99} {
		if out, encoding := Compress(codec, orders(5000)); encoding != "" || len(out) != 5000 {
			t.Errorf("codec %d: %q", codec, encoding)
		}
	}
}

func TestWhatIsCompressedIsDecompressed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "piece")
		body := bytes.Repeat(piece, rapid.IntRange(1, 500).Draw(t, "times"))
		codec := rapid.SampledFrom([]Codec{None, Gzip, Zstd}).Draw(t, "codec")
		out, encoding := Compress(codec, body, MinSize(0), MinSaving(0))
		if back, err := Decompress(encoding, out, len(body)); err != nil || !bytes.Equal(back, body) {
			t.Fatalf("%v", err)
		}
	})
}

func TestEncodings(t *testing.T) {
	body := orders(5000)
	zipped, _ := Compress(Gzip, body)
	zstdd, _ := Compress(Zstd, body)
	for _, c := range []struct {
		encoding string
		body     []byte
		want     error
	}{
		{"", body, nil},
		{"identity", body, nil},
		{"Identity", body, nil},
		{"gzip", zipped, nil},
		{"GZIP", zipped, nil},
		{"gzip", append(bytes.Clone(zipped), zipped...), nil},
		{"zstd", zstdd, nil},
		{"zstd", append(bytes.Clone(zstdd), zstdd...), nil},
		{"zstd", append([]byte("\x50\x2a\x4d\x18\x01\x00\x00\x00!"), zstdd...), nil}, // a frame to skip
		{"br", body, ErrEncoding},
		{"gzip, zstd", body, ErrEncoding},
		{strings.Repeat("x", 1000), body, ErrEncoding},
		{"gzip", body, ErrCorrupt},
		{"gzip", nil, ErrCorrupt},
		{"gzip", zstdd, ErrCorrupt},
		{"gzip", append(bytes.Clone(zipped), "after"...), ErrCorrupt},
		{"zstd", body, ErrCorrupt},
		{"zstd", zipped, ErrCorrupt},
		{"zstd", append(bytes.Clone(zstdd), "after"...), ErrCorrupt},
	} {
		out, err := Decompress(c.encoding, c.body, 0)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%.20q of %d bytes: got %v, want %v", c.encoding, len(c.body), err, c.want)
		}
		if err == nil && !bytes.HasPrefix(out, body) || err != nil && (out != nil || len(err.Error()) > 200) {
			t.Errorf("%.20q of %d bytes: %d bytes, %v", c.encoding, len(c.body), len(out), err)
		}
	}
	if _, err := Decompress("identity", body, len(body)-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a plain body over the bound: %v", err)
	}
}

func TestATruncatedBodyIsNeverShortened(t *testing.T) {
	for _, codec := range []Codec{Gzip, Zstd} {
		packed, encoding := Compress(codec, orders(2000))
		for i := 1; i < len(packed); i++ {
			if out, err := Decompress(encoding, packed[:i], 0); !errors.Is(err, ErrCorrupt) || out != nil {
				t.Fatalf("%s, the first %d of %d bytes: %d bytes, %v", encoding, i, len(packed), len(out), err)
			}
		}
	}
}

// bombs become far more than max, or say that they will.
func bombs(t testing.TB, size int) map[string][]byte {
	t.Helper()
	zeros := make([]byte, size)
	var zipped, stream bytes.Buffer
	w, err := stdgzip.NewWriterLevel(&zipped, stdgzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(4<<20))
	if err != nil {
		t.Fatal(err)
	}
	whole := e.EncodeAll(zeros, nil)
	e.Reset(&stream)
	for range 2 {
		_, err1 := w.Write(zeros[:size/2])
		_, err2 := e.Write(zeros[:size/2])
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(e.EncodeAll(zeros[:1<<20], nil), size>>20)
	// A frame of one segment that declares its size, 1 TiB, and holds nothing.
	declared := append([]byte("\x28\xb5\x2f\xfd\xe0"), binary.LittleEndian.AppendUint64(nil, 1<<40)...)
	// A frame that asks for a window of 128 MiB.
	window := []byte("\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00")
	return map[string][]byte{"gzip, one": zipped.Bytes(), "zstd, its size known": whole, "zstd, a stream": stream.Bytes(),
		"zstd, many frames": many, "zstd, a size that is a lie": append(declared, 1, 0, 0), "zstd, a large window": window}
}

func TestBombs(t *testing.T) {
	const limit = 1 << 20
	for name, bomb := range bombs(t, 64<<20) {
		t.Run(name, func(t *testing.T) {
			encoding, _, _ := strings.Cut(name, ",")
			got := allocated(func() {
				if out, err := Decompress(encoding, bomb, limit); !errors.Is(err, ErrTooLarge) || out != nil {
					t.Errorf("%d bytes: %d bytes, %v", len(bomb), len(out), err)
				}
			})
			if got > 24<<20 {
				t.Errorf("a bomb of %d bytes took %d bytes of memory", len(bomb), got)
			}
		})
	}
}

func TestManyGoroutinesAndNoneLeft(t *testing.T) {
	defer goleak.VerifyNone(t)
	var wg sync.WaitGroup
	for i := range 8 {
		body := orders(1000 + 5000*i)
		wg.Go(func() {
			for range 20 {
				for _, codec := range []Codec{Gzip, Zstd} {
					out, encoding := Compress(codec, body, MinSize(0))
					back, err := Decompress(encoding, out, len(body))
					if err != nil || encoding == "" || !bytes.Equal(back, body) {
						t.Errorf("%s: %v", codec, err)
					}
					if _, err := Decompress(encoding, out, 100); !errors.Is(err, ErrTooLarge) {
						t.Errorf("%s: %v", codec, err)
					}
					if _, err := Decompress(encoding, out[:len(out)/2], 0); !errors.Is(err, ErrCorrupt) {
						t.Errorf("%s: %v", codec, err)
					}
				}
			}
		})
	}
	wg.Wait()
}
