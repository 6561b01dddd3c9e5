package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/warren-mq/warren/client/clienttest"
)

// Arguments that make this program a child of itself: each variant has a process of its own, so that its CPU and allocations
// are its own.
const (
	childArgument  = "child"
	brokerArgument = "null-broker"
)

// childTimeout is the longest that any job may take.
const childTimeout = 6 * time.Minute

// runJob has a child process do a job.
func runJob(j job) (outcome, error) {
	input, err := json.Marshal(j)
	if err != nil {
		return outcome{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return outcome{}, err
	}
	command := exec.Command(program, childArgument)
	command.Stdin = bytes.NewReader(input)
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	if err := command.Start(); err != nil {
		return outcome{}, err
	}
	late := time.AfterFunc(childTimeout, func() { _ = command.Process.Kill() })
	defer late.Stop()
	if err := command.Wait(); err != nil {
		return outcome{}, fmt.Errorf("%s: %w: %s", j.Variant, err, strings.TrimSpace(complaints.String()))
	}
	var o outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		return o, fmt.Errorf("%s: %w", j.Variant, err)
	}
	return o, nil
}

// child reads a job, does it and prints what was measured.
func child() error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	profiled := func() error { return nil }
	if j.ProfileInto != "" {
		var err error
		if profiled, err = profile(j.ProfileInto); err != nil {
			return err
		}
	}
	o, err := do(j)
	if err := errors.Join(err, profiled()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// profile takes CPU and allocations of the whole process until the returned function is called.
func profile(into string) (func() error, error) {
	if err := os.MkdirAll(filepath.Dir(into), 0o750); err != nil {
		return nil, err
	}
	cpu, err := os.Create(into + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(into + ".allocs.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
	}, nil
}

// nullBroker is a process with a broker that only answers.
type nullBroker struct {
	command *exec.Cmd
	stdin   io.Closer
	uri     string
}

func startNullBroker() (*nullBroker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &nullBroker{command: exec.Command(program, brokerArgument)}
	b.command.Stderr = os.Stderr
	if b.stdin, err = b.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := b.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.command.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(stdout).Decode(&b.uri); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *nullBroker) Close() error { return errors.Join(b.stdin.Close(), b.command.Wait()) }

// runNullBroker runs until its standard input ends.
func runNullBroker() error {
	b, err := clienttest.New(clienttest.Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	if err := json.NewEncoder(os.Stdout).Encode(b.URL()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
