package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// read returns the regular files of a tar file.
func read(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	in := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = body
	}
}

// folderImage writes an image of a folder tree and returns the archive.
func folderImage(t *testing.T, root string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(path, []string{"localhost/x:1", "localhost/x:2"}, Config{User: "5:5", Env: []string{"A=b"}}, Folder(root)); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// tree makes a folder with a file, a hard link to it, a symbolic link and a device folder.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	steps := []error{
		os.MkdirAll(filepath.Join(root, "bin"), 0o755),
		os.MkdirAll(filepath.Join(root, "dev"), 0o755),
		os.WriteFile(filepath.Join(root, "dev", "null"), []byte("not to be seen"), 0o644),
		os.WriteFile(filepath.Join(root, "bin", "a"), []byte("program"), 0o755),
		os.Link(filepath.Join(root, "bin", "a"), filepath.Join(root, "bin", "b")),
		os.Symlink("a", filepath.Join(root, "bin", "c")),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestArchiveSaysWhatAnImportNeeds(t *testing.T) {
	files := read(t, folderImage(t, tree(t)))
	var manifest []manifestEntry
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	if got := manifest[0].RepoTags; len(got) != 2 || got[0] != "localhost/x:1" {
		t.Errorf("tags are %v", got)
	}
	var config document
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.User != "5:5" {
		t.Errorf("configuration is %+v", config)
	}
	layer := files[manifest[0].Layers[0]]
	sum := sha256.Sum256(layer)
	if want := "sha256:" + hex.EncodeToString(sum[:]); len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != want {
		t.Errorf("layer is %v, want %s", config.RootFS.DiffIDs, want)
	}
}

func TestLayerKeepsLinksAndLeavesOutDevices(t *testing.T) {
	files := read(t, folderImage(t, tree(t)))
	var manifest []manifestEntry
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]byte{}
	in := tar.NewReader(bytes.NewReader(files[manifest[0].Layers[0]]))
	for header, err := in.Next(); err == nil; header, err = in.Next() {
		kinds[header.Name] = header.Typeflag
		if !header.ModTime.Equal(epoch) {
			t.Errorf("%s has the time %s", header.Name, header.ModTime)
		}
	}
	want := map[string]byte{"bin/": tar.TypeDir, "bin/a": tar.TypeReg, "bin/b": tar.TypeLink, "bin/c": tar.TypeSymlink, "dev/": tar.TypeDir}
	if len(kinds) != len(want) {
		t.Errorf("entries are %v", kinds)
	}
	for name, kind := range want {
		if kinds[name] != kind {
			t.Errorf("%s has type %c, want %c", name, kinds[name], kind)
		}
	}
}

func TestSameContentGivesSameBytes(t *testing.T) {
	root := tree(t)
	first := folderImage(t, root)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(root, "bin", "a"), later, later); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, folderImage(t, root)) {
		t.Error("two archives of the same content differ")
	}
}

func TestFailedLayerLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	wrong := errors.New("wrong")
	err := Write(filepath.Join(dir, "image.tar"), []string{"x:1"}, Config{}, func(*tar.Writer) error { return wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("error is %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestBinaryRefusesWhatIsNoStaticProgram(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Binary(script, "x:1", filepath.Join(t.TempDir(), "image.tar")); err == nil {
		t.Error("a script is taken for a static program")
	}
}
