// Package image writes container images as docker-archive files, without Docker. The same input gives
// the same bytes: entries are sorted and have a fixed time.
package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// epoch is the time of every entry, so that an image depends on its content only.
var epoch = time.Unix(0, 0).UTC()

// Config is what the image says about running it; the names are those of the image format.
type Config struct {
	User         string              `json:"User,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Volumes      map[string]struct{} `json:"Volumes,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
}

// manifestEntry is one image of manifest.json.
type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// document is the image's configuration file. Without architecture and os, an import filters it out.
type document struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       Config    `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
	History      []history `json:"history"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// Write makes a docker-archive with one layer, whose content the function writes. The file appears whole
// or not at all.
func Write(path string, tags []string, config Config, layer func(*tar.Writer) error) error {
	scratch, err := os.MkdirTemp(filepath.Dir(path), ".tmp-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	layerFile := filepath.Join(scratch, "layer.tar")
	digest, err := writeLayer(layerFile, layer)
	if err != nil {
		return err
	}
	archive := filepath.Join(scratch, "image.tar")
	if err := writeArchive(archive, tags, config, layerFile, digest); err != nil {
		return err
	}
	return os.Rename(archive, path)
}

// writeLayer writes the layer's tar file and returns its SHA-256.
func writeLayer(path string, layer func(*tar.Writer) error) (string, error) {
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	out := tar.NewWriter(io.MultiWriter(file, sum))
	if err := errors.Join(layer(out), out.Close(), file.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// writeArchive puts the manifest, the configuration and the layer into one file.
func writeArchive(path string, tags []string, config Config, layerFile, digest string) error {
	configName, manifest, configBytes, err := describe(tags, config, digest)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := tar.NewWriter(file)
	err = errors.Join(
		add(out, "manifest.json", 0o644, manifest),
		add(out, configName, 0o644, configBytes),
		addFile(out, digest+"/layer.tar", 0o644, layerFile),
	)
	return errors.Join(err, out.Close(), file.Close())
}

// describe renders the configuration and the manifest of an image.
func describe(tags []string, config Config, digest string) (name string, manifest, configBytes []byte, err error) {
	configBytes, err = json.Marshal(document{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      epoch,
		Config:       config,
		RootFS:       rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest}},
		History:      []history{{Created: epoch, CreatedBy: "hack/local"}},
	})
	if err != nil {
		return "", nil, nil, err
	}
	sum := sha256.Sum256(configBytes)
	name = hex.EncodeToString(sum[:]) + ".json"
	manifest, err = json.Marshal([]manifestEntry{{Config: name, RepoTags: tags, Layers: []string{digest + "/layer.tar"}}})
	return name, manifest, configBytes, err
}

// add writes one file whose content is in memory.
func add(out *tar.Writer, name string, mode int64, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: epoch}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

// addFile writes one file from disk, owned by root.
func addFile(out *tar.Writer, name string, mode int64, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size(), ModTime: epoch}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return err
}
