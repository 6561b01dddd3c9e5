package image

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Folder writes a folder tree as a layer, with owners and modes kept. Sockets, device files and the
// content of dev, proc and sys are left out: a container runtime makes its own.
func Folder(root string) func(*tar.Writer) error {
	return func(out *tar.Writer) error {
		walk := folderWalk{root: root, out: out, seen: map[uint64]string{}}
		return filepath.WalkDir(root, walk.visit)
	}
}

// folderWalk is the state of one walk: seen names the first path of each file with several names.
type folderWalk struct {
	root string
	out  *tar.Writer
	seen map[uint64]string
}

func (w *folderWalk) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name, err := filepath.Rel(w.root, path)
	if err != nil || name == "." {
		return err
	}
	for _, virtual := range []string{"dev/", "proc/", "sys/"} {
		if strings.HasPrefix(name, virtual) {
			return skip(entry)
		}
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe) != 0 {
		return nil
	}
	header, err := w.header(path, name, info)
	if err != nil {
		return err
	}
	if err := w.out.WriteHeader(header); err != nil || header.Typeflag != tar.TypeReg {
		return err
	}
	return copyInto(w.out, path)
}

// header describes one entry without anything that differs between two builds.
func (w *folderWalk) header(path, name string, info fs.FileInfo) (*tar.Header, error) {
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(path); err != nil {
			return nil, err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	header.Name = name
	if info.IsDir() {
		header.Name += "/"
	}
	header.Uname, header.Gname = "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = epoch, time.Time{}, time.Time{}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Nlink > 1 && header.Typeflag == tar.TypeReg {
		if first, known := w.seen[stat.Ino]; known {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		} else {
			w.seen[stat.Ino] = name
		}
	}
	return header, nil
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return filepath.SkipDir
	}
	return nil
}

func copyInto(out io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(out, file)
	return err
}
