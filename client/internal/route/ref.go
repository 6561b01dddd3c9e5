package route

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxValue bounds one file of credentials or certificates, in bytes.
const maxValue = 1 << 20

// ref is a value that is read when it is needed. The value sits behind a function so that no verb of fmt prints it.
type ref struct {
	from string // where it comes from: the name of a variable or a path, never the value
	read func() (string, error)
}

func literal(variable, value string) ref {
	return ref{from: variable, read: func() (string, error) { return value, nil }}
}

// fileRef reads the file anew at every call, so that a rotated one is followed.
func fileRef(path string) ref {
	return ref{from: path, read: func() (string, error) { return readValue(path) }}
}

// readValue is the content of a file without the line's end that editors add. Empty files are refused.
func readValue(path string) (string, error) {
	data, err := readBounded(path, maxValue)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, plain(path, err)
	}
	defer func() { _ = f.Close() }() // what was read is read
	// A pipe or a device could be read for ever.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, plain(path, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, nil
}

// plain puts the path before the error once.
func plain(path string, err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// setting is one thing to know of a cluster besides its hosts.
type setting int

const (
	username setting = iota
	password
	vhost
	useTLS // "true" or "false"
	caFile
	certFile
	keyFile
	serverName
)

// layer is what one place says of a cluster: the variables of one prefix, a URI, a binding or an entry of the file.
type layer map[setting]ref

// chain is layers, the one that counts first.
type chain []layer

func (c chain) find(s setting) (ref, bool) {
	for _, l := range c {
		if r, ok := l[s]; ok {
			return r, true
		}
	}
	return ref{}, false
}

// text is the present value of a setting that is no secret; "" when nothing sets it.
func (c chain) text(s setting) (string, error) {
	r, ok := c.find(s)
	if !ok {
		return "", nil
	}
	value, err := r.read()
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.from, err)
	}
	return value, nil
}

// file adds the content of a file. Paths are absolute, and the error does not repeat what is not: it may well be the password
// itself.
func (l layer) file(s setting, place, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s is not an absolute path", place)
	}
	l[s] = fileRef(filepath.Clean(path))
	return nil
}
