package bench

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// Histograms count microseconds from 1 to one hour.
	histogramLowest  = 1
	histogramHighest = int64(time.Hour / time.Microsecond)
	histogramDigits  = 3
	coarseDigits     = 2
)

// Histogram counts durations from 1 µs to 1 hour; what is outside counts as the nearest of the two. It is not safe for
// concurrent use: each worker has its own, Merge makes one of them. As JSON it is the compressed V2 encoding of
// HdrHistogram in base64, which all its libraries read.
type Histogram struct {
	h *hdrhistogram.Histogram
}

// NewHistogram is empty, with three significant digits: about 200 KiB of memory. It is for a whole phase.
func NewHistogram() *Histogram { return newHistogram(histogramDigits) }

// NewCoarseHistogram is empty, with two significant digits: about 30 KiB of memory. It is for one second.
func NewCoarseHistogram() *Histogram { return newHistogram(coarseDigits) }

func newHistogram(digits int) *Histogram {
	return &Histogram{h: hdrhistogram.New(histogramLowest, histogramHighest, digits)}
}

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) { h.RecordN(d, 1) }

// RecordN counts the duration n times.
func (h *Histogram) RecordN(d time.Duration, n int64) {
	us := min(max(int64(d/time.Microsecond), histogramLowest), histogramHighest)
	// In range it cannot fail.
	_ = h.h.RecordValues(us, n)
}

// Merge adds the counts of another, which stays as it is. Nil adds nothing.
func (h *Histogram) Merge(other *Histogram) {
	if other != nil && other.h != nil {
		h.h.Merge(other.h)
	}
}

// Reset forgets all counts and keeps the memory.
func (h *Histogram) Reset() { h.h.Reset() }

// Count of recorded durations. A nil histogram has none.
func (h *Histogram) Count() int64 {
	if h == nil || h.h == nil {
		return 0
	}
	return h.h.TotalCount()
}

// Clone is a copy that shares nothing; of nil it is nil.
func (h *Histogram) Clone() *Histogram {
	if h == nil || h.h == nil {
		return nil
	}
	clone := newHistogram(int(h.h.SignificantFigures()))
	clone.Merge(h)
	return clone
}

// MarshalJSON writes the compressed V2 encoding in base64.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	if h == nil || h.h == nil {
		return []byte("null"), nil
	}
	text, err := h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encoding a histogram: %w", err)
	}
	return json.Marshal(string(text))
}

// UnmarshalJSON reads what MarshalJSON writes, and any other HdrHistogram of microseconds: its counts are taken over.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return fmt.Errorf("want a histogram as base64 text: %w", err)
	}
	decoded, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return fmt.Errorf("want a histogram in HdrHistogram's compressed encoding: %w", err)
	}
	*h = *newHistogram(min(max(int(decoded.SignificantFigures()), coarseDigits), histogramDigits))
	if dropped := h.h.Merge(decoded); dropped > 0 {
		return fmt.Errorf("the histogram has %d values over one hour", dropped)
	}
	return nil
}
