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
	"time"
)

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
