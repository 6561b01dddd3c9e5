// Package fieldcases holds docs/field-cases.md to the tests that exist.
package fieldcases

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

var (
	named   = regexp.MustCompile("`(Test[A-Za-z0-9]+)[^`]*`")
	defined = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
)

func TestEveryTestNamedInTheFieldCasesExists(t *testing.T) {
	exist := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range defined.FindAllSubmatch(source, -1) {
			exist[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "field-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := named.FindAllSubmatch(page, -1)
	if len(names) == 0 {
		t.Fatal("the page names no test")
	}
	for _, match := range names {
		if name := string(match[1]); !exist[name] {
			t.Errorf("docs/field-cases.md names %s, which does not exist", name)
		}
	}
}
