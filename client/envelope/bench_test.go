package envelope

import (
	"fmt"
	"testing"
	"time"
)

// traffic is n messages of 200 bytes as applications send them: with an id, a type, a time and two headers.
func traffic(n int) []Message {
	body, messages := orders(200*n), make([]Message, n)
	for i := range messages {
		messages[i] = Message{
			ID: fmt.Sprintf("6ba7b810-9dad-11d1-80b4-%012d", i), ContentType: "application/json", Type: "order.paid",
			Timestamp: time.Unix(1767225600+int64(i), 0), Body: body[200*i : 200*(i+1)],
			Headers: map[string]any{"tenant": "t-17", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		}
	}
	return messages
}

func plainTraffic(n int) []Message {
	messages := traffic(n)
	for i := range messages {
		messages[i].Headers = nil
	}
	return messages
}

func BenchmarkPack(b *testing.B) {
	for _, c := range []struct {
		name     string
		messages []Message
	}{{"100", plainTraffic(100)}, {"100-with-headers", traffic(100)}} {
		b.Run(c.name, func(b *testing.B) {
			var p Packer
			b.ReportAllocs()
			b.SetBytes(int64(len(packed(c.messages...))))
			for b.Loop() {
				p.Reset()
				for i := range c.messages {
					if err := p.Add(&c.messages[i]); err != nil {
						b.Fatal(err)
					}
				}
				_ = p.Bytes()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.messages)), "ns/message")
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	for _, c := range []struct {
		name     string
		messages []Message
	}{{"100", plainTraffic(100)}, {"100-with-headers", traffic(100)}} {
		b.Run(c.name, func(b *testing.B) {
			pack := packed(c.messages...)
			b.ReportAllocs()
			b.SetBytes(int64(len(pack)))
			for b.Loop() {
				if _, err := Unpack(pack, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.messages)), "ns/message")
		})
	}
}

func BenchmarkCompress(b *testing.B) {
	for _, codec := range []Codec{Gzip, Zstd} {
		for _, size := range []int{4 << 10, 32 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("%s-%dKiB", codec, size>>10), func(b *testing.B) {
				body := orders(size)
				var out []byte
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					out, _ = Compress(codec, body)
				}
				b.ReportMetric(100*float64(len(out))/float64(size), "%size")
			})
		}
	}
}

func BenchmarkDecompress(b *testing.B) {
	for _, codec := range []Codec{Gzip, Zstd} {
		for _, size := range []int{4 << 10, 32 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("%s-%dKiB", codec, size>>10), func(b *testing.B) {
				out, encoding := Compress(codec, orders(size))
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := Decompress(encoding, out, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
