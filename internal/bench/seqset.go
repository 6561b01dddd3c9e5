package bench

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
)

const (
	pageBits  = 4096
	pageWords = pageBits / 64

	// maxPages keeps a set from growing without end: 512 MiB of bits, or 4 billion numbers. Pages that are full cost
	// nothing.
	maxPages = 1 << 20
)

// page is the bits of 4096 numbers that follow one another.
type page struct {
	words [pageWords]uint64
	count int
}

// fullPage stands for each page that has all its numbers.
var fullPage = func() *page {
	p := &page{count: pageBits}
	for i := range p.words {
		p.words[i] = ^uint64(0)
	}
	return p
}()

// SeqSet is a set of sequence numbers that come nearly in order: one bit for each number, in pages of which full ones are
// shared. The zero value is empty. It is not safe for concurrent use.
type SeqSet struct {
	pages map[uint64]*page
	count int64
	// the page that was used last, since the next number is mostly on it
	last     *page
	lastKey  uint64
	overflow bool
}

// Add puts the number into the set and says whether it was new. When the set has no room for another page the number is
// taken for new and is not kept; Overflow says so.
func (s *SeqSet) Add(n uint64) bool {
	key, word, bit := n/pageBits, n%pageBits/64, uint64(1)<<(n%64)
	p := s.page(key)
	if p == nil {
		if len(s.pages) >= maxPages {
			s.overflow = true
			return true
		}
		if s.pages == nil {
			s.pages = map[uint64]*page{}
		}
		p = &page{}
		s.pages[key] = p
	}
	s.last, s.lastKey = p, key
	if p.words[word]&bit != 0 {
		return false
	}
	p.words[word] |= bit
	p.count++
	s.count++
	if p.count == pageBits {
		s.pages[key], s.last = fullPage, fullPage
	}
	return true
}

// Has says whether the number is in the set.
func (s *SeqSet) Has(n uint64) bool {
	p := s.page(n / pageBits)
	return p != nil && p.words[n%pageBits/64]&(1<<(n%64)) != 0
}

func (s *SeqSet) page(key uint64) *page {
	if s.last != nil && s.lastKey == key {
		return s.last
	}
	return s.pages[key]
}

// Count of numbers in the set.
func (s *SeqSet) Count() int64 { return s.count }

// Overflow says that the set had no room for a number.
func (s *SeqSet) Overflow() bool { return s.overflow }

// Below is how many numbers of the set are less than n.
func (s *SeqSet) Below(n uint64) int64 {
	var count int64
	for key, p := range s.pages {
		switch {
		case key < n/pageBits:
			count += int64(p.count)
		case key == n/pageBits:
			for i, word := range p.words {
				first := key*pageBits + uint64(i)*64
				if first >= n {
					break
				}
				if left := n - first; left < 64 {
					word &= 1<<left - 1
				}
				count += int64(bits.OnesCount64(word))
			}
		}
	}
	return count
}

// common is how many numbers are in both sets and, of those, in at least one of the others.
func (s *SeqSet) common(other *SeqSet, of ...*SeqSet) (both, inOthers int64) {
	for key, p := range s.pages {
		q := other.pages[key]
		if q == nil {
			continue
		}
		for i := range p.words {
			word := p.words[i] & q.words[i]
			both += int64(bits.OnesCount64(word))
			var any uint64
			for _, o := range of {
				if r := o.pages[key]; r != nil {
					any |= r.words[i]
				}
			}
			inOthers += int64(bits.OnesCount64(word & any))
		}
	}
	return both, inOthers
}

// merge adds the numbers of the other set.
func (s *SeqSet) merge(other *SeqSet) {
	s.overflow = s.overflow || other.overflow
	for key, q := range other.pages {
		p := s.pages[key]
		if p == fullPage {
			continue
		}
		if p == nil && len(s.pages) >= maxPages {
			s.overflow = true
			continue
		}
		sum := &page{}
		for i := range sum.words {
			sum.words[i] = q.words[i]
			if p != nil {
				sum.words[i] |= p.words[i]
			}
			sum.count += bits.OnesCount64(sum.words[i])
		}
		if p != nil {
			s.count -= int64(p.count)
		}
		s.count += int64(sum.count)
		if sum.count == pageBits {
			sum = fullPage
		}
		if s.pages == nil {
			s.pages = map[uint64]*page{}
		}
		s.pages[key] = sum
	}
	s.last = nil
}

// MarshalJSON writes pages, compressed, in base64.
func (s *SeqSet) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	// Neither a buffer nor a compressor over one can fail.
	z := zlib.NewWriter(&out)
	for _, key := range slices.Sorted(maps.Keys(s.pages)) {
		_ = binary.Write(z, binary.LittleEndian, key)
		_ = binary.Write(z, binary.LittleEndian, s.pages[key].words)
	}
	_ = z.Close()
	return json.Marshal(setFile{Pages: out.Bytes(), Overflow: s.overflow})
}

type setFile struct {
	Pages    []byte `json:"pages"`
	Overflow bool   `json:"overflow,omitempty"`
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *SeqSet) UnmarshalJSON(text []byte) error {
	var file setFile
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	*s = SeqSet{overflow: file.Overflow}
	z, err := zlib.NewReader(bytes.NewReader(file.Pages))
	if err != nil {
		return fmt.Errorf("a set of sequence numbers: %w", err)
	}
	for {
		var key uint64
		if err := binary.Read(z, binary.LittleEndian, &key); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a set of sequence numbers: %w", err)
		}
		one := SeqSet{pages: map[uint64]*page{key: {}}}
		if err := binary.Read(z, binary.LittleEndian, &one.pages[key].words); err != nil {
			return fmt.Errorf("a set of sequence numbers: %w", err)
		}
		s.merge(&one)
	}
}
