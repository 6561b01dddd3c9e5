package cache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestKeyDependsOnContentAndBoundaries(t *testing.T) {
	base := Key([]byte("ab"), []byte("c"))
	if base != Key([]byte("ab"), []byte("c")) {
		t.Error("the same parts give different keys")
	}
	for name, other := range map[string]string{
		"another content":  Key([]byte("ab"), []byte("d")),
		"moved boundary":   Key([]byte("a"), []byte("bc")),
		"one part":         Key([]byte("abc")),
		"additional empty": Key([]byte("ab"), []byte("c"), nil),
	} {
		if other == base {
			t.Errorf("%s gives the same key", name)
		}
	}
}

func TestRootFollowsEnvironment(t *testing.T) {
	t.Setenv("WARREN_CACHE", "/somewhere")
	if got, err := Root(); err != nil || got != "/somewhere" {
		t.Errorf("Root() = %q, %v", got, err)
	}
	t.Setenv("WARREN_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	if got, err := Root(); err != nil || got != "/xdg/warren" {
		t.Errorf("Root() = %q, %v", got, err)
	}
}

func TestEntryIsBuiltOnceByManyAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kind", "key")
	var builds atomic.Int32
	entry := Entry{Dir: dir, Label: "test", Build: func(tmp string) error {
		builds.Add(1)
		return os.WriteFile(filepath.Join(tmp, "file"), []byte("content"), 0o644)
	}}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := entry.Ensure(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := builds.Load(); got != 1 {
		t.Errorf("built %d times, want once", got)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(content) != "content" {
		t.Errorf("file is %q, %v", content, err)
	}
}

func TestFailedBuildLeavesNothingAndIsTriedAgain(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "key")
	wrong := errors.New("wrong")
	failing := Entry{Dir: dir, Label: "test", Build: func(string) error { return wrong }}
	if err := failing.Ensure(); !errors.Is(err, wrong) {
		t.Errorf("error is %v, want %v", err, wrong)
	}
	// What a crashed run left must not stay either.
	if err := os.Mkdir(filepath.Join(parent, ".tmp-crashed"), 0o755); err != nil {
		t.Fatal(err)
	}
	working := Entry{Dir: dir, Label: "test", Build: func(string) error { return nil }}
	if err := working.Ensure(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".tmp-") {
			t.Errorf("%s is left", entry.Name())
		}
	}
}
