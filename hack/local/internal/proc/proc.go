// Package proc starts processes that outlive this program, and stops exactly those again. A process is
// known by its id and its start time, so that a reused id is never signalled.
package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Identity names one process of this boot of the machine.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks between the machine's start and the process's
	Boot  string `json:"boot"`  // which start of the machine
}

// Spec is what to start.
type Spec struct {
	Path       string
	Args       []string
	Env        []string // besides Environment
	Log        string   // file that gets standard output and error, appended
	Cloneflags uintptr  // new namespaces for the process
}

// Environment is all that a started process gets from the machine: what the caller happens to have set, a
// proxy for example, must not change how a cluster works.
func Environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
}

// Start runs a process in a session of its own, with its output in a file.
func Start(spec Spec) (Identity, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return Identity{}, err
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Identity{}, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(Environment(), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: spec.Cloneflags}
	if err := cmd.Start(); err != nil {
		return Identity{}, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	id, err := Of(cmd.Process.Pid)
	// Reap it if it ends while this program runs; otherwise the machine's init does.
	go func() { _ = cmd.Wait() }()
	return id, err
}

// Of reads the identity of a running process.
func Of(pid int) (Identity, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, err
	}
	now, err := parseStat(string(content))
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: now.start, Boot: boot()}, nil
}

// Alive tells whether that very process still runs. One that is ending does not.
func (i Identity) Alive() bool {
	now, found := i.look()
	return found && !now.ending
}

// ended tells whether nothing is left of that very process but perhaps the entry for its parent.
func (i Identity) ended() bool {
	now, found := i.look()
	return !found || now.zombie
}

// look reads the state of that very process, if there still is one.
func (i Identity) look() (stat, bool) {
	if i.PID <= 0 || i.Boot != boot() {
		return stat{}, false
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.PID))
	if err != nil {
		return stat{}, false
	}
	now, err := parseStat(string(content))
	return now, err == nil && now.start == i.Start
}

// Signal sends a signal if that very process still runs.
func (i Identity) Signal(signal syscall.Signal) error {
	if !i.Alive() {
		return nil
	}
	if err := syscall.Kill(i.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", i.PID, err)
	}
	return nil
}

// Stop ends the process: asks, waits for the grace time, then kills. No grace time kills at once.
func (i Identity) Stop(grace time.Duration) error {
	if grace > 0 {
		if err := i.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		// A stopped (SIGSTOP) process would not see the request.
		if err := i.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		if i.gone(grace) {
			return nil
		}
	}
	if err := i.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	// The first process of a node ends only when the kernel has ended all others of the node.
	if !i.gone(30 * time.Second) {
		return fmt.Errorf("process %d does not end after SIGKILL", i.PID)
	}
	return nil
}

// gone waits for the end of the process.
func (i Identity) gone(limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if i.ended() {
			return true
		}
	}
	return i.ended()
}

// stat is what /proc/PID/stat says about a process.
type stat struct {
	parent int
	start  uint64
	ending bool // killed or exiting, perhaps waiting for others
	zombie bool // ended with all its threads
}

// parseStat reads the format of /proc/PID/stat. The name in parentheses may hold blanks and parentheses,
// so the fields count from the last one.
func parseStat(content string) (stat, error) {
	end := strings.LastIndexByte(content, ')')
	fields := strings.Fields(content[end+1:])
	if end < 0 || len(fields) < 20 {
		return stat{}, fmt.Errorf("not the state of a process: %q", content)
	}
	var numbers [4]uint64 // parent, flags, threads, start
	for i, field := range []int{1, 6, 17, 19} {
		var err error
		if numbers[i], err = strconv.ParseUint(fields[field], 10, 64); err != nil {
			return stat{}, fmt.Errorf("not the state of a process: %q", content)
		}
	}
	const exiting = 4 // PF_EXITING
	dead := fields[0] == "Z" || fields[0] == "X"
	return stat{
		parent: int(numbers[0]),
		start:  numbers[3],
		ending: dead || numbers[1]&exiting != 0,
		zombie: dead && numbers[2] <= 1,
	}, nil
}

// boot identifies this run of the machine: start times of two runs are not comparable.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Tail is the last lines of a log file, for error messages.
func Tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return path + ":\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Children lists the processes whose parent is the given one, by command name.
func Children(parent int) map[string]int {
	found := map[string]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return found
	}
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		now, err := parseStat(string(content))
		if err != nil || now.parent != parent {
			continue
		}
		begin, end := strings.IndexByte(string(content), '('), strings.LastIndexByte(string(content), ')')
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && begin >= 0 {
			found[string(content[begin+1:end])] = pid
		}
	}
	return found
}
