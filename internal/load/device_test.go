package load

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/bench"
)

func TestDiskStats(t *testing.T) {
	const text = "   7       0 loop0 63 1 2120 8 605 612 3792 5708 0 5709 5969 0 0 0 0 403 251\n" +
		" 254       0 vda 3522593 276210 90578642 15300490 4652840 1988352 240154480 2709685 0 1448476 18476024\n 8 1 short 1 2\n"
	for _, test := range []struct {
		major, minor          uint64
		writes, seconds, busy float64
		there                 bool
	}{
		{7, 0, 605, 5.708, 5.709, true},
		{254, 0, 4652840, 2709.685, 1448.476, true},
		{254, 1, 0, 0, 0, false},
		{8, 1, 0, 0, 0, false},
	} {
		var s bench.Sample
		if got := parseDiskStats(&s, text, test.major, test.minor); got != test.there {
			t.Errorf("%d:%d: %v", test.major, test.minor, got)
		}
		if !test.there {
			if s != (bench.Sample{}) {
				t.Errorf("%d:%d is not there and is not unknown: %+v", test.major, test.minor, s)
			}
			continue
		}
		near := func(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-6 }
		if !near(s.DeviceWritesTotal, test.writes) || !near(s.DiskWriteSecondsTotal, test.seconds) || !near(s.DiskBusySecondsTotal, test.busy) {
			t.Errorf("%d:%d: %v writes, %v s, busy %v s", test.major, test.minor, *s.DeviceWritesTotal, *s.DiskWriteSecondsTotal, *s.DiskBusySecondsTotal)
		}
		if s.DiskWritesTotal != nil || s.DiskWriteBytesTotal != nil {
			t.Error("what the node itself wrote is not known from its disk")
		}
	}
}

func TestDeviceNumbers(t *testing.T) {
	for dev, want := range map[uint64][2]uint64{0xfe00: {254, 0}, 0x700: {7, 0}, 0x10305: {259, 5}, 0x100301: {3, 257}, 0x100000000702: {4096 | 7, 2}} {
		if got := [2]uint64{deviceMajor(dev), deviceMinor(dev)}; got != want {
			t.Errorf("%#x is %v, want %v", dev, got, want)
		}
	}
}

func TestADiskThatCannotBeSeenIsAnError(t *testing.T) {
	for _, folder := range []string{filepath.Join(t.TempDir(), "none"), "/proc"} { // /proc is on no disk
		d := Disk{Node: "rabbit@a", Folder: folder}
		if samples, err := d.Sample(t.Context()); err == nil || !strings.Contains(err.Error(), "rabbit@a") {
			t.Errorf("%s: %v, %v", folder, samples, err)
		}
	}
	if _, ok := DiskOf("rabbit@a", 0); ok {
		t.Error("process 0 has a disk")
	}
}

func TestParseSpeed(t *testing.T) {
	for text, want := range map[string]float64{"20Mbit": 2.5e6, "10Gbit": 1.25e9, "800kbit": 1e5, "": 0, "0Mbit": 0, "10": 0, "10MB": 0, "-1Gbit": 0, "1Gbit/s": 0} {
		got, err := ParseSpeed(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
