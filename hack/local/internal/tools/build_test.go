package tools

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// module writes a tools module with one program of its own.
func module(t *testing.T) Builder {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module x\n", "go.sum": "sum\n", "own/main.go": "package main\n", "own/main_test.go": "package main\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Builder{Module: dir, Cache: t.TempDir()}
}

func TestKeyFollowsWhatDecidesTheProgram(t *testing.T) {
	own := Tool{Name: "own", Package: "./own"}
	for name, test := range map[string]struct {
		change func(b *Builder, tool *Tool) error
		same   bool
	}{
		"nothing":        {func(*Builder, *Tool) error { return nil }, true},
		"pinned modules": {write("go.mod", "module y\n"), false},
		"checksums":      {write("go.sum", "other\n"), false},
		"source":         {write("own/main.go", "package main // changed\n"), false},
		"its tests":      {write("own/main_test.go", "package main // changed\n"), true},
		"flags":          {func(_ *Builder, tool *Tool) error { tool.LDFlags = "-s"; return nil }, false},
		"links":          {func(_ *Builder, tool *Tool) error { tool.Links = []string{"other"}; return nil }, false},
		"another folder": {func(b *Builder, _ *Tool) error {
			other := filepath.Join(filepath.Dir(b.Module), "moved")
			err := os.Rename(b.Module, other)
			b.Module = other
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			builder, tool := module(t), own
			before, err := builder.key(tool)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.change(&builder, &tool); err != nil {
				t.Fatal(err)
			}
			after, err := builder.key(tool)
			if err != nil {
				t.Fatal(err)
			}
			if (before == after) != test.same {
				t.Errorf("keys %s and %s, want the same: %t", before, after, test.same)
			}
		})
	}
}

func write(name, content string) func(*Builder, *Tool) error {
	return func(b *Builder, _ *Tool) error {
		return os.WriteFile(filepath.Join(b.Module, name), []byte(content), 0o644)
	}
}

func TestEveryProgramIsFoundOnce(t *testing.T) {
	names := Names()
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		t.Errorf("a program has two tools: %v", names)
	}
	for _, name := range names {
		if _, err := Find(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Find("nothing"); err == nil {
		t.Error("an unknown program is found")
	}
	if len(All()) != len(catalogue) {
		t.Errorf("All() has %d tools, the catalogue %d", len(All()), len(catalogue))
	}
}
