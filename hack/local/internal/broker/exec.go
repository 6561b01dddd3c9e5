package broker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/warren-mq/warren/hack/local/internal/rabbit"
	"github.com/warren-mq/warren/hack/local/internal/state"
)

// Exec runs a command such as rabbitmqctl inside a broker, as its user, connected to this terminal.
func Exec(name string, command []string) error {
	rec, dir, err := running(name)
	if err != nil {
		return err
	}
	var spec initSpec
	if err := state.Read(filepath.Join(dir, "init.json"), &spec); err != nil {
		return err
	}
	user := strconv.Itoa(rabbit.User)
	args := []string{"--target", strconv.Itoa(rec.PID), "--mount", "--uts", "--ipc", "--pid", "--net", "--root", "--wd",
		"--setuid", user, "--setgid", user, "--", "/usr/bin/env", "-i"}
	args = append(append(args, spec.Env...), command...)
	cmd := exec.Command("nsenter", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
