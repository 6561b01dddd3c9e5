package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 7 7 0 -1 %F 0 0 0 0 0 0 0 0 20 0 %T 0 4711 0 0"
	for name, test := range map[string]struct {
		content        string
		ending, zombie bool
	}{
		"running":                    {"42 (a) S" + rest, false, false},
		"name with parentheses":      {"42 (a) S (b) R" + rest, false, false},
		"zombie":                     {"42 (a) Z" + rest, true, true},
		"ended, threads still there": {strings.Replace("42 (a) Z"+rest, "%T", "3", 1), true, false},
		"exiting":                    {strings.Replace("42 (a) S"+rest, "%F", "4194564", 1), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			content := strings.NewReplacer("%F", "4194304", "%T", "1").Replace(test.content)
			got, err := parseStat(content)
			if err != nil {
				t.Fatal(err)
			}
			want := stat{parent: 1, start: 4711, ending: test.ending, zombie: test.zombie}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	for _, broken := range []string{"", "42 (a", "42 (a) S 1", "no parentheses at all 1 2 3"} {
		if _, err := parseStat(broken); err == nil {
			t.Errorf("%q is accepted", broken)
		}
	}
}

func TestIdentityOfAnotherStartIsNeverAlive(t *testing.T) {
	me, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !me.Alive() {
		t.Error("this process does not count as alive")
	}
	for name, other := range map[string]Identity{
		"reused id":        {PID: me.PID, Start: me.Start + 1, Boot: me.Boot},
		"before a restart": {PID: me.PID, Start: me.Start, Boot: "another"},
		"none":             {},
	} {
		if other.Alive() {
			t.Errorf("%s counts as alive", name)
		}
		if err := other.Stop(0); err != nil { // must not signal this process
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStartAndStop(t *testing.T) {
	log := filepath.Join(t.TempDir(), "logs", "sh.log")
	id, err := Start(Spec{Path: "/bin/sh", Args: []string{"-c", "echo $GREETING; exec sleep 60"}, Log: log, Env: []string{"GREETING=hello"}})
	if err != nil {
		t.Fatal(err)
	}
	// The log is written by another process, and a file gives nothing to wait on.
	for end := time.Now().Add(10 * time.Second); !strings.Contains(Tail(log, 5), "hello"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("log is %s", Tail(log, 5))
		}
	}
	if !id.Alive() {
		t.Error("the process does not count as alive")
	}
	if err := id.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if id.Alive() {
		t.Error("the process still counts as alive")
	}
}
