// Package state holds where clusters and brokers keep their files, and reads and writes small JSON files
// whole or not at all.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Root is the folder of all state of this machine: $WARREN_STATE, or /var/lib/warren-local.
func Root() (string, error) {
	dir := os.Getenv("WARREN_STATE")
	if dir == "" {
		dir = "/var/lib/warren-local"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	// The kernel limits the path of a socket to 107 bytes; sockets lie up to 65 bytes below this folder.
	if len(dir) > 40 {
		return "", fmt.Errorf("WARREN_STATE is too long for sockets below it (%d bytes, at most 40): %s", len(dir), dir)
	}
	return dir, nil
}

// DefaultName is a name for what belongs to a checkout; two checkouts differ.
func DefaultName(checkout string) string {
	sum := sha256.Sum256([]byte(checkout))
	base := notAllowed.ReplaceAllString(strings.ToLower(filepath.Base(checkout)), "-")
	base = strings.Trim(base, "-")
	if base == "" {
		base = "warren"
	}
	if len(base) > 12 {
		base = strings.Trim(base[:12], "-")
	}
	return base + "-" + hex.EncodeToString(sum[:])[:6]
}

var (
	notAllowed = regexp.MustCompile(`[^a-z0-9-]+`)
	allowed    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

// CheckName refuses names that could not be a folder, a label or part of a node name.
func CheckName(name string) error {
	if len(name) > 30 || !allowed.MatchString(name) {
		return fmt.Errorf("name %q: use at most 30 lower-case letters, digits and inner dashes", name)
	}
	return nil
}

// Write puts a value into a JSON file, whole or not at all.
func Write(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(path, append(content, '\n'), 0o600)
}

// WriteFile writes a file, whole or not at all, and makes its folder.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Read fills a value from a JSON file.
func Read(path string, value any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
