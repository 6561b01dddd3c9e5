package rabbit

import (
	"strings"
	"testing"
)

func TestFindTakesVersionOrLine(t *testing.T) {
	for version, want := range map[string]string{"3.10": "3.10", "3.10.8": "3.10", "4.3": "4.3", "4.3.9": "4.3"} {
		if line, err := Find(version); err != nil || line.Name != want {
			t.Errorf("Find(%s) = %s, %v", version, line.Name, err)
		}
	}
	for _, version := range []string{"", "3", "3.1", "3.100.1", "4.2.0"} {
		if _, err := Find(version); err == nil || !strings.Contains(err.Error(), "3.10.8") {
			t.Errorf("Find(%q): error %v does not name what there is", version, err)
		}
	}
}

func TestArchiveWithAnotherVersion(t *testing.T) {
	line := Line{Name: "4.3", Want: "4.3.6", Suite: "forky"}
	if note, err := line.check("4.3.6"); note != "" || err != nil {
		t.Errorf("the wanted version: %q, %v", note, err)
	}
	if note, err := line.check("4.3.7"); err != nil || !strings.Contains(note, "4.3.7") {
		t.Errorf("a later patch: %q, %v", note, err)
	}
	if _, err := line.check("4.4.0"); err == nil || !strings.Contains(err.Error(), "DEBIAN_MIRROR") {
		t.Errorf("another line: error %v does not say what to do", err)
	}
}
