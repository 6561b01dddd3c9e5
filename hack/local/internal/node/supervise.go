package node

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// restartDelay is the pause before a program that ended starts again.
const restartDelay = time.Second

// supervise keeps the programs running and reaps every process that the node's processes leave.
func supervise(spec Spec) error {
	running := map[int]Process{}
	restart := make(chan Process, len(spec.Processes))
	for _, process := range spec.Processes {
		restart <- process
	}
	for {
		select {
		case process := <-restart:
			pid, err := start(spec.Dir, process)
			if err != nil {
				return err
			}
			running[pid] = process
			continue
		default:
		}
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			// Nothing has ended. Looking a few times a second costs less than handling the signals.
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if process, ours := running[pid]; ours {
			delete(running, pid)
			fmt.Fprintf(os.Stderr, "%s %s ended, starting it again\n", time.Now().Format(time.RFC3339), process.Name)
			time.AfterFunc(restartDelay, func() { restart <- process })
		}
	}
}

// start runs one program with its output in a log file. It uses the system calls directly: the os package
// would wait for children too and take exits from the loop above.
func start(dir string, process Process) (int, error) {
	log, err := os.OpenFile(filepath.Join(dir, process.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	pid, err := syscall.ForkExec(process.Path, append([]string{process.Path}, process.Args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   process.Env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", process.Name, err)
	}
	return pid, nil
}
