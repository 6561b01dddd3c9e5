// Package rabbit makes RabbitMQ root file systems and images from Debian's packages, with the interface
// of the Docker official image: user 999, /etc/rabbitmq/conf.d, /etc/rabbitmq/enabled_plugins, RABBITMQ_*
// variables, docker-entrypoint.sh.
package rabbit

import (
	"fmt"
	"strings"
)

// Repository is the name of the images.
const Repository = "localhost/warren/rabbitmq"

// User is the id of the broker's user and group.
const User = 999

// Line is one version line of RabbitMQ and the Debian release that has it.
type Line struct {
	Name  string // "3.10"
	Want  string // the version that this project tests
	Suite string // Debian release
}

// Lines are the version lines that Debian's archive serves and Warren tests.
var Lines = []Line{
	{Name: "3.10", Want: "3.10.8", Suite: "bookworm"},
	{Name: "4.3", Want: "4.3.6", Suite: "forky"},
}

// Tags are the names of the image of a version of this line.
func (l Line) Tags(version string) []string {
	return []string{Repository + ":" + version + "-management", Repository + ":" + l.Name + "-management"}
}

// Find returns the line of a version such as "4.3" or "4.3.6".
func Find(version string) (Line, error) {
	known := make([]string, 0, len(Lines))
	for _, line := range Lines {
		if version == line.Name || strings.HasPrefix(version, line.Name+".") {
			return line, nil
		}
		known = append(known, line.Want)
	}
	return Line{}, fmt.Errorf("RabbitMQ %s cannot be had here; there are %s", version, strings.Join(known, ", "))
}

// check compares the version that the archive served with the wanted one. A later patch of the same line
// is taken, as the archive drops the old one; anything else is an error, because what the tests assume
// about the line would not hold.
func (l Line) check(version string) (note string, err error) {
	switch {
	case version == l.Want:
		return "", nil
	case strings.HasPrefix(version, l.Name+"."):
		return fmt.Sprintf("Debian %s now has RabbitMQ %s instead of %s: using it (tags %s)",
			l.Suite, version, l.Want, strings.Join(l.Tags(version), ", ")), nil
	}
	return "", fmt.Errorf("debian %s now has RabbitMQ %s, which is not of the line %s: set DEBIAN_MIRROR to an archive snapshot"+
		" that still has %s, or change the line in hack/local/internal/rabbit/lines.go", l.Suite, version, l.Name, l.Want)
}
