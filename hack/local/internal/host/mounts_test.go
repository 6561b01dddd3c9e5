package host

import (
	"slices"
	"testing"
)

func TestParseMountsFindsOnlyWhatIsBelow(t *testing.T) {
	const mountinfo = `21 1 8:1 / / rw - ext4 /dev/vda rw
22 21 0:5 / /state/a/proc rw - proc proc rw
23 21 0:5 / /state/a rw - ext4 /dev/vda rw
24 21 0:5 / /state/ab rw - ext4 /dev/vda rw
25 21 0:5 / /state/a/with\040blank rw - tmpfs tmpfs rw
`
	got := parseMounts(mountinfo, "/state/a")
	want := []string{"/state/a/with blank", "/state/a/proc", "/state/a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
