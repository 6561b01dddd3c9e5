package link

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const low, high = 100 * time.Millisecond, 30 * time.Second
	for _, c := range []struct {
		attempt int
		ceiling time.Duration
	}{
		{0, low}, {1, 2 * low}, {2, 4 * low}, {8, 25600 * time.Millisecond}, {9, high}, {31, high}, {32, high}, {1000, high},
	} {
		var asked int64
		got := backoff(c.attempt, low, high, func(n int64) int64 { asked = n; return n - 1 })
		if time.Duration(asked) != c.ceiling || got != c.ceiling-1 {
			t.Errorf("try %d: below %v, want %v", c.attempt, time.Duration(asked), c.ceiling)
		}
	}
	if got := backoff(3, 0, 0, chance); got != 0 {
		t.Errorf("without a ceiling: %v", got)
	}
}

func TestBackoffIsSpreadOverTheWholeRange(t *testing.T) {
	var lower, upper bool
	for range 1000 {
		d := backoff(4, 100*time.Millisecond, 30*time.Second, chance)
		if d < 0 || d >= 1600*time.Millisecond {
			t.Fatalf("%v is out of range", d)
		}
		lower, upper = lower || d < 400*time.Millisecond, upper || d >= 1200*time.Millisecond
	}
	if !lower || !upper {
		t.Error("1000 draws left a quarter of the range out")
	}
}

func TestOneDialAtATimePerHost(t *testing.T) {
	l := NewLimiter(1e6, 10)
	ctx := context.Background()
	release, err := l.acquire(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.acquire(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := l.acquire(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second dial of the same host: %v", err)
	}
	release()
	release, err = l.acquire(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestDialsOfAllHostsShareARate(t *testing.T) {
	l := NewLimiter(0.001, 2)
	ctx := context.Background()
	for _, host := range []string{"a", "b"} {
		release, err := l.acquire(ctx, host)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := l.acquire(short, "c"); err == nil {
		t.Fatal("a third dial within the second")
	}
	// The turn of the host was given back.
	if _, err := l.acquire(short, "c"); err == nil {
		t.Fatal("a third dial within the second")
	}
}
