package host

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// RemoveTree removes a folder with all in it. Whatever is mounted below is unmounted first: removing files
// through a mount would destroy what belongs to something else.
func RemoveTree(dir string) error {
	for _, point := range mountsBelow(dir) {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	if left := mountsBelow(dir); len(left) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(left, ", "))
	}
	return os.RemoveAll(dir)
}

// mountsBelow lists mount points at or below a folder, the deepest first.
func mountsBelow(dir string) []string {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return parseMounts(string(content), dir)
}

// parseMounts finds the mount points at or below a folder in the format of /proc/PID/mountinfo.
func parseMounts(mountinfo, dir string) []string {
	var found []string
	for line := range strings.SplitSeq(mountinfo, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(found)))
	return found
}

// unescape undoes the kernel's octal escapes of blanks and the like.
func unescape(field string) string {
	var out strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if code, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(field[i])
	}
	return out.String()
}
