package state

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaultNameIsValidAndDiffersByPath(t *testing.T) {
	seen := map[string]string{}
	for _, checkout := range []string{"/home/you/main", "/home/me/main", "/home/me/Warren Checkout (2)", "/", "/ä", "/x/a-very-long-folder-name-indeed"} {
		name := DefaultName(checkout)
		if err := CheckName(name); err != nil {
			t.Errorf("%s: %v", checkout, err)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s have the same name %s", checkout, other, name)
		}
		seen[name] = checkout
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "a-b", "7"} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a/b", "..", strings.Repeat("a", 31)} {
		if CheckName(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestRootKeepsSocketsUnderTheLimit(t *testing.T) {
	t.Setenv("WARREN_STATE", "/"+strings.Repeat("a", 60))
	if _, err := Root(); err == nil {
		t.Error("a long folder is accepted")
	}
	t.Setenv("WARREN_STATE", "")
	if got, err := Root(); err != nil || got != "/var/lib/warren-local" {
		t.Errorf("Root() = %q, %v", got, err)
	}
}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file.json")
	if err := Write(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := Read(path, &got); err != nil || got["a"] != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := WriteFile(path, []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Read(path, &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error %v does not name the file", err)
	}
}
