package broker

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a RabbitMQ version. Patch is -1 when only the line ("4.3") is known.
type Version struct {
	Major, Minor, Patch int
}

// ParseVersion reads "4.3" or "4.3.6"; a suffix after "-" or "+" (as in "4.3.6-1+deb") is ignored.
func ParseVersion(s string) (Version, error) {
	core, _, _ := strings.Cut(s, "-")
	core, _, _ = strings.Cut(core, "+")
	parts := strings.Split(core, ".")
	if len(parts) != 2 && len(parts) != 3 {
		return Version{}, fmt.Errorf("%q is not a RabbitMQ version: want MAJOR.MINOR or MAJOR.MINOR.PATCH", s)
	}
	v := Version{Patch: -1}
	for i, into := range []*int{&v.Major, &v.Minor, &v.Patch}[:len(parts)] {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil {
			return Version{}, fmt.Errorf("%q is not a RabbitMQ version: %q is not a number", s, parts[i])
		}
		*into = int(n)
	}
	return v, nil
}

// Line is the version line, as "4.3".
func (v Version) Line() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// String is "4.3.6", or the line when the patch is not known.
func (v Version) String() string {
	if v.Patch < 0 {
		return v.Line()
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// atLeast tells whether v is at or after major.minor.patch. An unknown patch counts as the newest of its
// line, since a line tag of an image is the newest patch.
func (v Version) atLeast(major, minor, patch int) bool {
	if v.Major != major {
		return v.Major > major
	}
	if v.Minor != minor {
		return v.Minor > minor
	}
	return v.Patch < 0 || v.Patch >= patch
}

// reaches tells whether v is at or after w.
func (v Version) reaches(w Version) bool { return v.atLeast(w.Major, w.Minor, w.Patch) }
