package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Codec is a way to compress a body.
type Codec uint8

const (
	// None leaves bodies as they are.
	None Codec = iota
	// Gzip as in RFC 1952: every language reads it.
	Gzip
	// Zstd as in RFC 8878: smaller and faster than gzip.
	Zstd
)

// String is the content encoding of AMQP and HTTP: "gzip", "zstd", or "" for None.
func (c Codec) String() string {
	switch c {
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	}
	return ""
}

// Defaults of [Compress].
const (
	DefaultMinSize   = 1 << 10
	DefaultMinSaving = 10
)

// Option changes when [Compress] compresses.
type Option func(options) options

type options struct{ minSize, minSaving int }

// MinSize in bytes that a body must have to be compressed. Default 1 KiB.
func MinSize(bytes int) Option {
	return func(o options) options { o.minSize = bytes; return o }
}

// MinSaving in percent of the body, from 0 to 100, without which it stays as it is. Default 10.
func MinSaving(percent int) Option {
	return func(o options) options { o.minSaving = percent; return o }
}

// Compress gives the body for a message and its content encoding. Where compression does not pay, or c is None or not known,
// that is the body itself, not a copy, and ""; else a new slice of about the length needed, and "gzip" or "zstd". Different
// versions of this package may compress equal bodies to different bytes. Safe for use by several goroutines.
func Compress(c Codec, body []byte, o ...Option) (out []byte, encoding string) {
	limits := options{minSize: DefaultMinSize, minSaving: DefaultMinSaving}
	for _, option := range o {
		limits = option(limits)
	}
	if len(body) < limits.minSize || len(body) == 0 {
		return body, ""
	}
	s := getScratch()
	defer s.put()
	switch c {
	case Gzip:
		s.gzip(body)
	case Zstd:
		s.zstd(body)
	default:
		return body, ""
	}
	if saved := int64(len(body) - s.Len()); saved <= 0 || saved*100 < int64(len(body))*int64(limits.minSaving) {
		return body, ""
	}
	return bytes.Clone(s.Bytes()), c.String()
}

// Decompress gives the body of a message with a content encoding: "", "identity", "gzip" or "zstd", in any case. For the
// first two that is the body itself, not a copy. Its length is at most max bytes, or 16 MiB if max is zero or less. What is
// allocated on the way is a small multiple of that, and at most about 9 MiB for the codec itself. The error is ErrEncoding,
// ErrTooLarge, also for zstd with a window of more than 8 MiB, or ErrCorrupt. Safe for use by several goroutines.
func Decompress(encoding string, body []byte, max int) ([]byte, error) {
	if max <= 0 {
		max = DefaultMaxBytes
	}
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		if len(body) > max {
			return nil, tooLarge("bytes in a body", max)
		}
		return body, nil
	case strings.EqualFold(encoding, "gzip"):
		return gunzip(body, max)
	case strings.EqualFold(encoding, "zstd"):
		return unzstd(body, max)
	}
	return nil, fmt.Errorf("%w: %.32q", ErrEncoding, encoding)
}

// scratch is where the length of the outcome shows, so that only that much is kept.
type scratch struct{ bytes.Buffer }

// maxScratch bounds what an unusual body leaves in the pool.
const maxScratch = 1 << 20

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) put() {
	if s.Cap() <= maxScratch {
		s.Reset()
		scratches.Put(s)
	}
}

// This gzip writes JSON about three times as fast as the standard library's, and no larger; it reads half as fast again.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func (s *scratch) gzip(body []byte) {
	w := gzipWriters.Get().(*gzip.Writer)
	w.Reset(s)
	_, err := w.Write(body)
	mustWork(errors.Join(err, w.Close()))
	w.Reset(nil)
	gzipWriters.Put(w)
}

// Zstd's fastest level makes JSON as small as its default does, in less time.
//
// One goroutine's worth each: with a concurrency of 1 the encoder and the decoder start none of their own, so that the
// garbage collector may take what the pool drops.
var (
	zstdEncoders = sync.Pool{New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		mustWork(err)
		return e
	}}
	zstdDecoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow),
			zstd.WithDecodeBuffersBelow(0))
		mustWork(err)
		return d
	}}
)

const (
	zstdWindow = 1 << 20
	// maxZstdWindow is what RFC 8878 asks of every decoder, and what every level of the zstd command but --ultra keeps to.
	maxZstdWindow = 8 << 20
)

func (s *scratch) zstd(body []byte) {
	e := zstdEncoders.Get().(*zstd.Encoder)
	s.Grow(len(body)/2 + 64)
	_, err := s.Write(e.EncodeAll(body, s.AvailableBuffer()))
	mustWork(err)
	zstdEncoders.Put(e)
}

// mustWork is for what fails only if the options are wrong: nothing is written but to memory.
func mustWork(err error) {
	if err != nil {
		panic("envelope: " + err.Error())
	}
}

// emptyGzip is the header of a stream, which is as far as Reset reads.
const emptyGzip = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

func gunzip(body []byte, max int) ([]byte, error) {
	r := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(body)); err != nil {
		return nil, corrupt("gzip: %v", err)
	}
	out, err := readAll(r, max)
	_ = r.Reset(strings.NewReader(emptyGzip)) // lets go of the body
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return nil, corrupt("gzip: %v", err)
	}
	return out, err
}

// readAll reads to the end, or to the first byte past max.
func readAll(r io.Reader, max int) ([]byte, error) {
	s := getScratch()
	defer s.put()
	switch n, err := s.ReadFrom(io.LimitReader(r, min(int64(max), math.MaxInt64-1)+1)); {
	case n > int64(max):
		return nil, tooLarge("bytes after decompression", max)
	case err != nil:
		return nil, err
	}
	return bytes.Clone(s.Bytes()), nil
}

// unzstd reads streams in any case: decoding at once into what the frame declares is no faster, and believes it.
func unzstd(body []byte, max int) ([]byte, error) {
	d := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(d)
	err := d.Reset(bytes.NewReader(body))
	if err != nil {
		return nil, corrupt("zstd: %v", err)
	}
	out, err := readAll(d, max)
	_ = d.Reset(nil) // lets go of the body
	switch {
	case err == nil || errors.Is(err, ErrTooLarge):
		return out, err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, fmt.Errorf("%w: zstd: %w", ErrTooLarge, err)
	}
	return nil, corrupt("zstd: %v", err)
}
