package envelope

import (
	"bytes"
	"errors"
	"testing"
)

// What is read is written again with the same bytes, if nothing in it was skipped; what is not read has an error of ours.
func FuzzUnpack(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.bytes(), false)
		if pack := v.bytes(); len(pack) > Overhead {
			f.Add(pack[:len(pack)-checksumSize], true)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed && len(data) >= headerSize { // else the checksum stops nearly all
			data = reseal(append(bytes.Clone(data), 0, 0, 0, 0), 4, Version)
		}
		messages, err := Unpack(data, Limits{})
		if err != nil {
			if !errors.Is(err, ErrVersion) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("an error of another kind: %v", err)
			}
			if messages != nil {
				t.Fatalf("%d messages with %v", len(messages), err)
			}
			return
		}
		again := packed(messages...)
		if len(again) > len(data) {
			t.Fatalf("%d bytes became %d", len(data), len(again))
		}
		if len(again) == len(data) && !bytes.Equal(again, data) {
			t.Fatalf("read\n%x\nand written as\n%x", data, again)
		}
		twice, err := Unpack(again, Limits{})
		if err != nil || !bytes.Equal(packed(twice...), again) {
			t.Fatalf("what was written does not come back: %v", err)
		}
	})
}

func FuzzDecompress(f *testing.F) {
	encodings := []string{"", "gzip", "zstd"}
	for _, v := range vectors() {
		for codec := range encodings {
			out, _ := Compress(Codec(codec), v.bytes(), MinSize(0), MinSaving(0))
			f.Add(out, uint8(codec), 1<<10)
		}
	}
	f.Add(readHex(f, "testdata/gzip.hex"), uint8(1), 1<<16)
	f.Add(readHex(f, "testdata/zstd.hex"), uint8(2), 1<<16)
	for name, bomb := range bombs(f, 1<<20) {
		f.Add(bomb, map[byte]uint8{'g': 1, 'z': 2}[name[0]], 1<<10)
	}
	f.Fuzz(func(t *testing.T, data []byte, codec uint8, limit int) {
		limit = min(max(limit, 1), 1<<20)
		encoding := encodings[int(codec)%len(encodings)]
		out, err := Decompress(encoding, data, limit)
		switch {
		case err == nil && len(out) > limit:
			t.Fatalf("%d bytes, want %d at most", len(out), limit)
		case err != nil && (out != nil || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge)):
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	})
}
