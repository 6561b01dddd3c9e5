// Package host prepares the machine: Debian packages that the local cluster and the images need.
package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/warren-mq/warren/hack/progress"
)

// Need is a file that must exist and the Debian package that has it.
type Need struct{ File, Package string }

// ForImages is what building the RabbitMQ images needs.
var ForImages = []Need{
	{"/usr/sbin/debootstrap", "debootstrap"},
	{"/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"},
}

// ForBrokers is what running a broker without a cluster needs.
var ForBrokers = []Need{{"/usr/bin/nsenter", "util-linux"}}

// ForCluster is what running a cluster needs.
var ForCluster = []Need{
	{"/usr/sbin/runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"/usr/sbin/iptables", "iptables"},
	{"/usr/sbin/conntrack", "conntrack"},
	{"/usr/bin/ip", "iproute2"},
	{"/usr/bin/nsenter", "util-linux"},
}

// ForFonts is what a browser without a screen needs besides itself: without fonts it draws no letters.
var ForFonts = []Need{{"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "fonts-dejavu-core"}}

// ForBrowser is what looking at pages needs.
var ForBrowser = append([]Need{{"/usr/bin/chromium-headless-shell", "chromium-headless-shell"}}, ForFonts...)

// Root says what to do when the program does not run as root.
func Root(what string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s needs root: run it as root (or with Docker, use kind instead)", what)
	}
	return nil
}

// Ensure installs the packages of needs that are missing.
func Ensure(needs []Need) error {
	missing := missing(needs)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks what the packages %s have, and there is no apt-get: install them",
			strings.Join(missing, ", "))
	}
	return progress.Step("installing "+strings.Join(missing, ", "), func() error {
		if err := apt("update"); err != nil {
			// One unreachable source must not stop it: the packages may come from another.
			progress.Say("apt-get update: %v", err)
		}
		return apt(append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
	})
}

// missing lists the packages whose file is absent, each once.
func missing(needs []Need) []string {
	set := map[string]bool{}
	for _, need := range needs {
		if _, err := os.Stat(need.File); err == nil {
			continue
		}
		// Newer Debian releases merge /usr/bin and /usr/sbin for some tools.
		if _, err := exec.LookPath(filepath.Base(need.File)); err == nil && !strings.Contains(need.File, "/lib/") {
			continue
		}
		set[need.Package] = true
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func apt(args ...string) error {
	cmd := exec.Command("apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	said, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}
