// Package cache keeps what outlives a checkout: built programs and images, keyed by content.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/progress"
)

// Root is the folder of the cache: $WARREN_CACHE, or "warren" in the user's cache folder.
func Root() (string, error) {
	if dir := os.Getenv("WARREN_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the cache (set WARREN_CACHE to one): %w", err)
	}
	return filepath.Join(dir, "warren"), nil
}

// Key is a short hash of the parts. Each part is preceded by its length, so that moving a byte from one
// part to the next changes the key.
func Key(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%d:", len(part))
		_, _ = sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// Lock takes the lock file, waiting for another process that has it, and returns how to release it.
// The kernel releases it too when the process dies, so that a crash leaves nothing locked.
func Lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !told {
			progress.Say("waiting for another run that holds %s", path)
			told = true
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Entry is one keyed folder of the cache.
type Entry struct {
	Dir   string                 // the folder, complete once it exists
	Label string                 // for messages
	Takes string                 // how long the first build takes, in words
	Build func(tmp string) error // fills a temporary folder that then becomes Dir
}

// Ensure builds the entry if it is missing. Two processes at once build it once: the second waits for
// the lock and finds it.
func (e Entry) Ensure() error {
	if exists(e.Dir) {
		return nil
	}
	parent := filepath.Dir(e.Dir)
	unlock, err := Lock(filepath.Join(parent, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if exists(e.Dir) {
		return nil
	}
	if err := dropLeftovers(parent); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, ".tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = host.RemoveTree(tmp) }()
	// MkdirTemp makes it private; others may use the cache too.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	what := e.Label
	if e.Takes != "" {
		what += " (the first time: " + e.Takes + ")"
	}
	if err := progress.Step(what, func() error { return e.Build(tmp) }); err != nil {
		return err
	}
	return os.Rename(tmp, e.Dir)
}

// dropLeftovers removes temporary folders of runs that crashed; the caller holds the lock.
func dropLeftovers(parent string) error {
	old, err := filepath.Glob(filepath.Join(parent, ".tmp-*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := host.RemoveTree(dir); err != nil {
			return err
		}
	}
	return nil
}

// CopyFile copies a file to a new place with a mode, whole or not at all.
func CopyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(to), ".tmp-copy-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	if err := errors.Join(out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
