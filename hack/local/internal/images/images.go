// Package images has all images that a local cluster starts with.
package images

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/image"
	"github.com/warren-mq/warren/hack/local/internal/rabbit"
	"github.com/warren-mq/warren/hack/local/internal/tools"
)

// Pause is the image of every pod's first process.
const Pause = "localhost/warren/pause:1"

// Archive is one docker-archive file.
type Archive struct {
	Path string
	Tags []string
}

// Ensure builds the images that the cache lacks: pause first, then each RabbitMQ line.
func Ensure(builder tools.Builder) ([]Archive, error) {
	pause, err := EnsurePause(builder)
	if err != nil {
		return nil, err
	}
	all := []Archive{pause}
	for _, line := range rabbit.Lines {
		built, err := rabbit.Ensure(builder.Cache, line)
		if err != nil {
			return nil, err
		}
		all = append(all, Archive{Path: built.Archive, Tags: built.Tags})
	}
	return all, nil
}

// EnsurePause builds the pause image unless the cache has it.
func EnsurePause(builder tools.Builder) (Archive, error) {
	root := filepath.Dir(filepath.Dir(builder.Module))
	source, err := os.ReadFile(filepath.Join(root, "hack", "local", "pause", "main.go"))
	if err != nil {
		return Archive{}, err
	}
	dir := filepath.Join(builder.Cache, "pause", cache.Key(source, []byte(runtime.Version())))
	entry := cache.Entry{Dir: dir, Label: "building the pause image", Build: func(tmp string) error {
		program := filepath.Join(tmp, "pause")
		if err := tools.GoBuild(root, "./hack/local/pause", "-s -w", program); err != nil {
			return err
		}
		return image.Binary(program, Pause, filepath.Join(tmp, "image.tar"))
	}}
	return Archive{Path: filepath.Join(dir, "image.tar"), Tags: []string{Pause}}, entry.Ensure()
}
