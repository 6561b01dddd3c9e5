package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSplitImage(t *testing.T) {
	for image, want := range map[string][2]string{
		"localhost/warren/warren:1a2b":    {"localhost/warren/warren", "1a2b"},
		"registry.example:5000/warren":    {"registry.example:5000/warren", "latest"},
		"registry.example:5000/warren:v1": {"registry.example:5000/warren", "v1"},
	} {
		if repository, tag := splitImage(image); repository != want[0] || tag != want[1] {
			t.Errorf("%s: %q %q, wanted %q", image, repository, tag, want)
		}
	}
}

func TestParseQuota(t *testing.T) {
	for text, want := range map[string]float64{"100000\n100000": 1, "50000 100000": 0.5, "max 100000": 0, "-1\n100000": 0} {
		if got, err := parseQuota(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, wanted %v", text, got, err, want)
		}
	}
	if _, err := parseQuota(""); err == nil {
		t.Error("no quota is taken for one")
	}
}

func TestKindConfigHasThatManyNodes(t *testing.T) {
	for nodes, want := range map[string]int{"": 1, "1": 1, "3": 3} {
		if got := strings.Count(kindConfig(nodes), "- role: "); got != want {
			t.Errorf("NODES=%s: %d nodes, wanted %d", nodes, got, want)
		}
	}
}

func TestNamesDifferByPurpose(t *testing.T) {
	demo, err := New(Options{Kind: "local", Purpose: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	tests, err := New(Options{Kind: "kind", Purpose: "e2e"})
	if err != nil {
		t.Fatal(err)
	}
	if demo.Name == tests.Name || len(demo.Name) > 30 || len(tests.Name) > 30 {
		t.Errorf("names are %s and %s", demo.Name, tests.Name)
	}
	if _, err := New(Options{Kind: "other"}); err == nil {
		t.Error("CLUSTER=other is taken")
	}
}

func TestWaitTellsTheLastAnswer(t *testing.T) {
	n := 0
	err := WaitEvery(t.Context(), time.Millisecond, time.Minute, func(context.Context) (string, error) {
		n++
		return strings.Repeat("missing", max(0, 3-n)), nil
	})
	if err != nil || n != 3 {
		t.Errorf("asked %d times: %v", n, err)
	}
	err = WaitEvery(t.Context(), time.Millisecond, 20*time.Millisecond, func(context.Context) (string, error) {
		return "", errors.New("no answer")
	})
	if err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("the error is %v", err)
	}
}
