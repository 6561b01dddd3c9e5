package route

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes a file in the folder, and answers its path.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mount puts files into dir as the kubelet mounts a ConfigMap or a Secret, and replaces what is there by one rename.
func mount(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir, 0o755))
	version, err := os.MkdirTemp(dir, "..version-")
	must(err)
	for name, content := range files {
		write(t, version, name, content)
	}
	data, next := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_tmp")
	before, _ := os.Readlink(data)
	must(os.Symlink(filepath.Base(version), next))
	must(os.Rename(next, data))
	for name := range files {
		if link := filepath.Join(dir, name); !isLink(link) {
			must(os.Symlink(filepath.Join("..data", name), link))
		}
	}
	if before != "" {
		must(os.RemoveAll(filepath.Join(dir, before)))
	}
}

func isLink(path string) bool {
	_, err := os.Readlink(path)
	return err == nil
}
