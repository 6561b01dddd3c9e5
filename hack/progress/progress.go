// Package progress reports long steps on standard error, so that standard output stays for results.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// every is how often a running step says that it still runs.
const every = 15 * time.Second

var (
	mu    sync.Mutex
	out   io.Writer = os.Stderr
	begun           = time.Now()
)

// Say prints one line with the seconds since the program began.
func Say(format string, args ...any) {
	mu.Lock()
	defer mu.Unlock()
	_, _ = fmt.Fprintf(out, "[%4.0fs] %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
}

// Step runs do; it names the step when it begins, while it runs, and when it has ended.
func Step(what string, do func() error) error {
	start := time.Now()
	Say("%s ...", what)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				Say("%s: still running after %.0f s", what, time.Since(start).Seconds())
			}
		}
	}()
	err := do()
	close(done)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	Say("%s: done in %.1f s", what, time.Since(start).Seconds())
	return nil
}
