package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// every is how often a step that takes long says that it still runs.
const every = 15 * time.Second

var (
	begun    = time.Now()
	outputMu sync.Mutex
)

// Say prints one line with the seconds since the program began, on standard error: standard output is for results.
func Say(format string, args ...any) {
	outputMu.Lock()
	defer outputMu.Unlock()
	fmt.Fprintf(os.Stderr, "[%4.0fs] %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
}

// Step runs do and says when it begins, that it still runs, and how long it took.
func Step(what string, do func() error) error {
	start := time.Now()
	Say("%s ...", what)
	done := make(chan struct{})
	defer close(done)
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
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	Say("%s: done in %.1f s", what, time.Since(start).Seconds())
	return nil
}

// run runs a program in the checkout and answers its standard output. What it says on standard error is shown when it
// is shown to be of use: always for programs that report progress, else with the error.
func (c *Cluster) run(ctx context.Context, program string, args ...string) (string, error) {
	return c.runWith(ctx, nil, program, args...)
}

// loud is run for programs that report their own progress.
func (c *Cluster) loud(ctx context.Context, program string, args ...string) (string, error) {
	return c.runWith(ctx, os.Stderr, program, args...)
}

func (c *Cluster) runWith(ctx context.Context, progress io.Writer, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = c.Root
	var out, trouble bytes.Buffer
	command.Stdout, command.Stderr = &out, &trouble
	if progress != nil {
		command.Stderr = progress
	}
	if err := command.Run(); err != nil {
		shown := fmt.Sprintf("%s %s: %v", filepath.Base(program), strings.Join(args, " "), err)
		if text := strings.TrimSpace(trouble.String()); text != "" {
			shown += "\n" + text
		}
		return out.String(), fmt.Errorf("%s", shown)
	}
	return out.String(), nil
}

// Wait asks until the answer is "", or fails with the last answer when the time is up. An error is an answer too.
func Wait(ctx context.Context, limit time.Duration, ask func(ctx context.Context) (missing string, err error)) error {
	return WaitEvery(ctx, time.Second, limit, ask)
}

// WaitEvery is Wait with another interval.
func WaitEvery(ctx context.Context, interval, limit time.Duration, ask func(ctx context.Context) (missing string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last := "nothing was answered"
	for {
		missing, err := ask(ctx)
		switch {
		case err == nil && missing == "":
			return nil
		case err != nil && ctx.Err() == nil:
			last = err.Error()
		case err == nil:
			last = missing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", limit, last)
		case <-tick.C:
		}
	}
}
