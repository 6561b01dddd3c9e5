package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that files write as "500ms", "5s" or "1m30s" (Go's syntax). A number without a unit is an
// error, and so is a negative duration.
type Duration time.Duration

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Seconds is the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// String writes the duration without units that are zero: "1m", not "1m0s".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a string of Go's syntax.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("want a duration as a string, as in \"5s\", not %s", text)
	}
	value, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = value
	return nil
}

// ParseDuration reads Go's syntax of a duration that is not negative.
func ParseDuration(s string) (Duration, error) {
	value, err := time.ParseDuration(s)
	if err != nil || !durationPattern.MatchString(s) {
		return 0, fmt.Errorf("want a duration with a unit, as in \"5s\" or \"1m30s\", not %q", s)
	}
	return Duration(value), nil
}

// Size is a number of bytes that files write as a whole number, or as a string with a unit: "256B", "10KiB", "1MiB",
// "2GiB" (powers of 1024) and "10kB", "1MB", "2GB" (powers of 1000).
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"B", 1},
}

// String writes the size with the largest power of 1024 that divides it.
func (s Size) String() string {
	for _, unit := range sizeUnits[:3] {
		if s >= Size(unit.bytes) && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalJSON writes the size as String does.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads a whole number of bytes or a string with a unit.
func (s *Size) UnmarshalJSON(text []byte) error {
	var word string
	if json.Unmarshal(text, &word) != nil {
		var n int64
		if err := json.Unmarshal(text, &n); err != nil || n < 0 {
			return fmt.Errorf("want a whole number of bytes or a size as in \"10KiB\", not %s", text)
		}
		*s = Size(n)
		return nil
	}
	value, err := ParseSize(word)
	if err != nil {
		return err
	}
	*s = value
	return nil
}

// ParseSize reads a size with its unit.
func ParseSize(text string) (Size, error) {
	bad := fmt.Errorf("want a size with a unit, as in \"256B\" or \"10KiB\", not %q", text)
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || !sizePattern.MatchString(text) || n > math.MaxInt64/unit.bytes {
			return 0, bad
		}
		return Size(n * unit.bytes), nil
	}
	return 0, bad
}
