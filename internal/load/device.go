package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-mq/warren/internal/bench"
)

// Disk samples the disk that holds a node's data, by /proc/diskstats: how long writes take and how long the disk is busy. The
// figures are the disk's and not the node's alone: what others write is in them.
type Disk struct {
	Node string
	// Folder of the node's data, as this process sees it.
	Folder string
}

// DataOf is where a node keeps its data, as the processes of the node see it, in the official images and in packages.
const DataOf = "/var/lib/rabbitmq"

// DiskOf is the disk of a node of which a process is known; false when its folder of data cannot be seen or is on no disk.
func DiskOf(node string, pid int) (Disk, bool) {
	d := Disk{Node: node, Folder: fmt.Sprintf("/proc/%d/root%s", pid, DataOf)}
	_, err := d.read()
	return d, err == nil
}

// Sample implements Source.
func (d Disk) Sample(context.Context) ([]bench.Sample, error) {
	s, err := d.read()
	if err != nil {
		return nil, fmt.Errorf("the disk of node %q: %w", d.Node, err)
	}
	return []bench.Sample{s}, nil
}

func (d Disk) read() (bench.Sample, error) {
	var info syscall.Stat_t
	if err := syscall.Stat(d.Folder, &info); err != nil {
		return bench.Sample{}, fmt.Errorf("%s: %w", d.Folder, err)
	}
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return bench.Sample{}, err
	}
	s := bench.Sample{Node: d.Node}
	if !parseDiskStats(&s, string(text), deviceMajor(uint64(info.Dev)), deviceMinor(uint64(info.Dev))) {
		return s, fmt.Errorf("%s is on no disk of /proc/diskstats: give a folder that is on one", d.Folder)
	}
	return s, nil
}

// deviceMajor and deviceMinor are the halves of a device number, as Linux spreads them.
func deviceMajor(dev uint64) uint64 { return dev>>8&0xfff | dev>>32&0xfffff000 }
func deviceMinor(dev uint64) uint64 { return dev&0xff | dev>>12&0xffffff00 }

// parseDiskStats reads the line of one device: major, minor, name, then of reads and of writes each the number that were
// completed, merged ones, sectors of 512 bytes and milliseconds, then requests in flight and milliseconds with one in flight.
func parseDiskStats(s *bench.Sample, text string, major, minor uint64) bool {
	const completed, milliseconds, busy, least = 7, 10, 12, 13
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < least || fields[0] != strconv.FormatUint(major, 10) || fields[1] != strconv.FormatUint(minor, 10) {
			continue
		}
		for at, into := range map[int]struct {
			value **float64
			unit  float64
		}{
			completed: {&s.DeviceWritesTotal, 1}, milliseconds: {&s.DiskWriteSecondsTotal, 1e-3}, busy: {&s.DiskBusySecondsTotal, 1e-3},
		} {
			value, err := strconv.ParseFloat(fields[at], 64)
			if err != nil {
				return false
			}
			*into.value = new(value * into.unit)
		}
		return true
	}
	return false
}

// Link tells how fast the network of each node is, which no node knows.
type Link struct {
	Nodes          []string
	BytesPerSecond float64
}

// Sample implements Source.
func (l Link) Sample(context.Context) ([]bench.Sample, error) {
	samples := make([]bench.Sample, len(l.Nodes))
	for i, node := range l.Nodes {
		samples[i] = bench.Sample{Node: node, NetworkLimitBytesPerSecond: new(l.BytesPerSecond)}
	}
	return samples, nil
}

var speedPattern = regexp.MustCompile(`^([0-9]{1,6})([kMG])bit$`)

// ParseSpeed reads the speed of a link as networks are sold, as 100Mbit or 10Gbit (a second), in bytes per second.
func ParseSpeed(text string) (float64, error) {
	parts := speedPattern.FindStringSubmatch(text)
	if parts == nil {
		return 0, errors.New("want the bits of a second as 100Mbit or 10Gbit")
	}
	bits, err := strconv.ParseFloat(parts[1], 64)
	if err != nil || bits == 0 {
		return 0, errors.New("want more than 0 bits")
	}
	return bits * map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9}[parts[2]] / 8, nil
}
