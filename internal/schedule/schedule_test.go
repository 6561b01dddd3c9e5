package schedule

import (
	"testing"
	"time"
)

func TestOpen(t *testing.T) {
	sunday, err := Parse("0 3 * * SUN")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{
		"2026-12-06T02:59:59Z": false, "2026-12-06T03:00:00Z": true, "2026-12-06T04:59:59Z": true, "2026-12-06T05:00:00Z": false,
		"2026-12-07T03:30:00Z": false, "2026-12-06T05:30:00+02:00": true,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := Open(sunday, 2*time.Hour, now); got != want {
			t.Errorf("at %s open is %t", at, got)
		}
	}
	daily, err := Parse("0 0 * * *")
	if err != nil {
		t.Fatal(err)
	}
	if !Open(daily, 25*time.Hour, time.Date(2026, 1, 1, 23, 59, 0, 0, time.UTC)) {
		t.Error("a window as long as its interval is always open")
	}
}
