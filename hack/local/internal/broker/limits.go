package broker

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/rabbit"
)

// A broker may have less than this machine offers, so that tests see what a lack of it looks like: a disk that makes so many
// writes a second, or a network link of so many bits.

const (
	loopback  = "127.0.0.1"
	diskBytes = 4 << 30 // of a slow disk; it is a sparse file
)

// command runs a program and reports what it said when it fails.
func command(name string, args ...string) error {
	said, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}

// words runs a command that is written as one text.
func words(format string, args ...any) error {
	all := strings.Fields(fmt.Sprintf(format, args...))
	return command(all[0], all[1:]...)
}

// ownDisk puts the data on a disk of their own, a file. The disk passes requests on as they come, without the page cache, so that
// the kernel's figures of it (/proc/diskstats) show what waits when the broker's control group may write only so often to
// the disk below; and it has no journal, whose writes would be those of a thread of the kernel.
func ownDisk(rec record) error {
	image, data := imageOf(rec), filepath.Join(rec.Dir, "data")
	file, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(diskBytes), file.Close()); err != nil {
		return err
	}
	if err := words("mkfs.ext4 -q -F -O ^has_journal %s", image); err != nil {
		return err
	}
	said, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", image).Output()
	if err != nil {
		return fmt.Errorf("losetup of %s: %w", image, err)
	}
	device := strings.TrimSpace(string(said))
	mounted := words("mount %s %s", device, data)
	if err := errors.Join(mounted, words("losetup --detach %s", device)); err != nil { // it goes when it is mounted no more
		return err
	}
	return os.Chown(data, rabbit.User, rabbit.User)
}

func imageOf(rec record) string { return filepath.Join(rec.Dir, "disk.img") }

const cgroupRoot = "/sys/fs/cgroup"

// groupOf is the folder of a broker's control group, of the controller of disks.
func groupOf(name string) string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "blkio")); err == nil {
		return filepath.Join(cgroupRoot, "blkio", "warren-broker-"+name)
	}
	return filepath.Join(cgroupRoot, "warren-broker-"+name) // version 2
}

// limitWrites bounds how often in a second the broker's control group may write to the disk that holds its data's; 0 is no bound.
// It makes the group if there is none.
func limitWrites(rec record, writes int) error {
	var info syscall.Stat_t
	if err := syscall.Stat(imageOf(rec), &info); err != nil {
		return err
	}
	disk, err := wholeDisk(uint32(info.Dev>>8&0xfff), uint32(info.Dev&0xff|info.Dev>>12&0xfff00))
	if err != nil {
		return fmt.Errorf("%s is on no disk whose writes could be limited: %w", rec.Dir, err)
	}
	group := groupOf(rec.Name)
	limit, line := "blkio.throttle.write_iops_device", fmt.Sprintf("%s %d", disk, writes)
	if filepath.Dir(group) == cgroupRoot {
		limit, line = "io.max", fmt.Sprintf("%s wiops=%d", disk, writes)
		if writes == 0 {
			line = disk + " wiops=max"
		}
		if err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+io"), 0o644); err != nil {
			return fmt.Errorf("the controller of disks: %w", err)
		}
	}
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(group, limit), []byte(line), 0o644); err != nil {
		return fmt.Errorf("limiting writes: %w", err)
	}
	return nil
}

// wholeDisk is MAJOR:MINOR of the disk that a block device is, or is a part of.
func wholeDisk(major, minor uint32) (string, error) {
	at, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(at, "partition")); err == nil {
		at = filepath.Dir(at)
	}
	text, err := os.ReadFile(filepath.Join(at, "dev"))
	return strings.TrimSpace(string(text)), err
}

// removeGroup removes the control group, if there is one. Its processes have been killed and may take a moment to be gone.
func removeGroup(name string) error {
	group := groupOf(name)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := syscall.Rmdir(group)
		if err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("removing the control group %s: %w", group, err)
		}
	}
}

// cableRange are addresses that no network routes, and that the slots of clusters leave unused (package cluster): each broker
// has four of them.
var cableRange = net.IPv4(198, 19, 244, 0).To4()

// freeAddress is one for a broker, whose neighbour, the host, is the one before.
func freeAddress() (string, error) {
	taken := map[byte]bool{}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, address := range own {
		if network, ok := address.(*net.IPNet); ok && network.IP.Mask(net.CIDRMask(24, 32)).Equal(cableRange) {
			taken[network.IP.To4()[3]/4] = true
		}
	}
	for slot := byte(0); slot < 64; slot++ {
		if !taken[slot] {
			return net.IPv4(cableRange[0], cableRange[1], cableRange[2], slot*4+2).String(), nil
		}
	}
	return "", errors.New("64 brokers have networks of their own already: stop one")
}

// cableName is the host's end; the kernel allows 15 bytes.
func cableName(name string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // never fails
	return fmt.Sprintf("wrb%08x", sum.Sum32())
}

// layCable joins a broker that has just started to this machine, by a link of the rate in both directions. The broker waits for
// eth0, which is there when all else is done.
func layCable(rec record, pid int) error {
	link := cableName(rec.Name)
	_ = words("ip link delete %s", link) // of a broker that was killed a moment ago
	broker := net.ParseIP(rec.Address).To4()
	host := net.IPv4(broker[0], broker[1], broker[2], broker[3]-1)
	bucket := "root tbf rate " + rec.LinkRate + " burst 64kb latency 100ms"
	for _, line := range []string{
		fmt.Sprintf("ip link add %s type veth peer name cable netns %d", link, pid),
		fmt.Sprintf("ip address add %s/30 dev %s", host, link),
		fmt.Sprintf("ip link set %s up", link),
		fmt.Sprintf("tc qdisc add dev %s %s", link, bucket),
		inside(pid, "tc qdisc add dev cable %s", bucket),
		inside(pid, "ip address add %s/30 dev cable", broker),
		inside(pid, "ip link set lo up"),
		inside(pid, "ip link set cable name eth0"),
		inside(pid, "ip link set eth0 up"),
	} {
		if err := words("%s", line); err != nil {
			return err
		}
	}
	return nil
}

// inside is a command in the network of a process.
func inside(pid int, format string, args ...any) string {
	return "nsenter --target " + strconv.Itoa(pid) + " --net -- " + fmt.Sprintf(format, args...)
}

// awaitCable waits until the network is there.
func awaitCable() error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if eth0, err := net.InterfaceByName("eth0"); err == nil && eth0.Flags&net.FlagUp != 0 {
			return nil
		}
	}
	return errors.New("no network came")
}
