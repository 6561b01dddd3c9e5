package image

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// NonRoot is the user of an image of one binary, as in common minimal images.
const NonRoot = 65532

// caBundle is where Debian and most minimal images keep the certificates of public authorities.
const caBundle = "/etc/ssl/certs/ca-certificates.crt"

// Binary writes an image with one static program as its entrypoint and, if this machine has one, a
// bundle of certificate authorities.
func Binary(program, tag, path string) error {
	if err := static(program); err != nil {
		return err
	}
	name := filepath.Base(program)
	user := fmt.Sprintf("%d:%d", NonRoot, NonRoot)
	config := Config{
		User:       user,
		Env:        []string{"PATH=/", "HOME=/home/nonroot", "SSL_CERT_FILE=" + caBundle},
		Entrypoint: []string{"/" + name},
		WorkingDir: "/",
	}
	return Write(path, []string{tag}, config, func(out *tar.Writer) error {
		return errors.Join(
			dir(out, "etc/", 0o755, 0),
			add(out, "etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", NonRoot)),
			add(out, "etc/passwd", 0o644, fmt.Appendf(nil,
				"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%s:nonroot:/home/nonroot:/sbin/nologin\n", user)),
			certificates(out),
			dir(out, "home/", 0o755, 0),
			dir(out, "home/nonroot/", 0o700, NonRoot),
			dir(out, "tmp/", 0o1777, 0),
			addFile(out, name, 0o755, program),
		)
	})
}

// certificates adds the bundle if there is one.
func certificates(out *tar.Writer) error {
	if _, err := os.Stat(caBundle); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(
		dir(out, "etc/ssl/", 0o755, 0),
		dir(out, "etc/ssl/certs/", 0o755, 0),
		addFile(out, caBundle[1:], 0o644, caBundle),
	)
}

// dir adds a folder.
func dir(out *tar.Writer, name string, mode int64, owner int) error {
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner, ModTime: epoch})
}

// static refuses a program that needs a dynamic linker: it could not start in an image without one.
func static(program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("%s is no Linux program: %w", program, err)
	}
	defer func() { _ = file.Close() }()
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically: build it with CGO_ENABLED=0", program)
		}
	}
	return nil
}
