package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/cache"
)

// Builder builds tools from one checkout into the cache.
type Builder struct {
	Module string // folder of the tools module
	Cache  string // folder of the cache
}

// NewBuilder finds the tools module from the working folder upwards, and the cache.
func NewBuilder() (Builder, error) {
	root, err := Checkout()
	if err != nil {
		return Builder{}, err
	}
	dir, err := cache.Root()
	if err != nil {
		return Builder{}, err
	}
	return Builder{Module: filepath.Join(root, "hack", "tools"), Cache: dir}, nil
}

// Checkout is the root of the checkout that the working folder is in.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "hack", "tools", "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside a checkout of Warren (no hack/tools/go.mod above it)", dir)
		}
	}
}

// Dir builds the tool if its content is not in the cache, and returns the folder with its programs.
func (b Builder) Dir(tool Tool) (string, error) {
	key, err := b.key(tool)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.Cache, "tools", tool.Name, key)
	entry := cache.Entry{
		Dir:   dir,
		Label: "building " + tool.Name,
		Takes: tool.Takes,
		Build: func(tmp string) error { return b.build(tool, tmp) },
	}
	return dir, entry.Ensure()
}

// Path builds what is needed and returns the path of a program.
func (b Builder) Path(program string) (string, error) {
	tool, err := Find(program)
	if err != nil {
		return "", err
	}
	dir, err := b.Dir(tool)
	return filepath.Join(dir, program), err
}

// Assets returns a folder with etcd, kube-apiserver and kubectl, as KUBEBUILDER_ASSETS names one.
func (b Builder) Assets() (string, error) {
	programs := []string{"etcd", "kube-apiserver", "kubectl"}
	paths := make([]string, 0, len(programs))
	for _, program := range programs {
		path, err := b.Path(program)
		if err != nil {
			return "", err
		}
		paths = append(paths, path)
	}
	dir := filepath.Join(b.Cache, "assets", cache.Key([]byte(strings.Join(paths, "\n"))))
	entry := cache.Entry{Dir: dir, Label: "linking the programs for API server tests", Build: func(tmp string) error {
		for i, path := range paths {
			if err := os.Symlink(path, filepath.Join(tmp, programs[i])); err != nil {
				return err
			}
		}
		return nil
	}}
	return dir, entry.Ensure()
}

// key hashes all that decides what the tool becomes: the pinned modules, its own source, flags, Go.
func (b Builder) key(tool Tool) (string, error) {
	parts := [][]byte{[]byte(tool.Package), []byte(tool.LDFlags), []byte(strings.Join(tool.Links, " ")),
		[]byte(runtime.Version() + runtime.GOOS + runtime.GOARCH)}
	files := []string{filepath.Join(b.Module, "go.mod"), filepath.Join(b.Module, "go.sum")}
	if strings.HasPrefix(tool.Package, "./") {
		own, err := sources(filepath.Join(b.Module, tool.Package))
		if err != nil {
			return "", err
		}
		files = append(files, own...)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		parts = append(parts, []byte(filepath.Base(file)), content)
	}
	return cache.Key(parts...), nil
}

// sources lists the Go files of a program without its tests, in order.
func sources(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// build runs the Go compiler into the folder and makes the links.
func (b Builder) build(tool Tool, into string) error {
	if err := GoBuild(b.Module, tool.Package, tool.LDFlags, filepath.Join(into, tool.Name)); err != nil {
		return err
	}
	for _, link := range tool.Links {
		if err := os.Symlink(tool.Name, filepath.Join(into, link)); err != nil {
			return err
		}
	}
	return nil
}

// GoBuild builds a static program without anything of this machine in it.
func GoBuild(module, pkg, ldflags, output string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false"}
	if ldflags != "" {
		args = append(args, "-ldflags", ldflags)
	}
	cmd := exec.Command("go", append(args, "-o", output, pkg)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the go command is not in PATH: install Go %s or newer", strings.TrimPrefix(runtime.Version(), "go"))
	}
	if err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", pkg, module, err, tail(said.String(), 30))
	}
	return nil
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
