package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// shelf keeps policies by vhost and name.
type shelf map[string]map[string]broker.Policy

func (s shelf) Policies(_ context.Context, vhost string) (all []broker.Policy, err error) {
	if s[vhost] == nil {
		return nil, errors.New("no such vhost")
	}
	for _, name := range slices.Sorted(maps.Keys(s[vhost])) {
		all = append(all, s[vhost][name])
	}
	return all, nil
}

func (s shelf) PutPolicy(_ context.Context, p broker.Policy) error {
	s[p.VHost][p.Name] = p
	return nil
}

func (s shelf) DeletePolicy(_ context.Context, vhost, name string) error {
	delete(s[vhost], name)
	return nil
}

// A scenario has the policies that its queues' likes have, another one only its own, and those of the cluster stay.
func TestScenariosHaveThePoliciesTheyAreLike(t *testing.T) {
	all := shelf{"/": {}, "own": {}}
	for _, p := range []broker.Policy{
		{VHost: "/", Name: "ha", Pattern: `^payments\.`, Priority: 3, Definition: map[string]any{"ha-mode": "all"}},
		{VHost: "/", Name: "limits", Pattern: "^x", Definition: map[string]any{"max-length": 5}},
	} {
		all["/"][p.Name] = p
	}
	like := bench.Queues{Like: &bench.Likeness{Name: "payments.bench", VHost: "/"}}
	for _, step := range []struct {
		what   string
		queues bench.Queues
		want   string
	}{
		{"like those of the vhost /", like, "ha limits"},
		{"mirrored", bench.Queues{Type: bench.MirroredQueue}, "mirrored"},
		{"like them again", like, "ha limits"},
		{"of no class", bench.Queues{}, ""},
	} {
		if err := policiesFor(t.Context(), all, "own", "own-1", bench.Scenario{Queues: step.queues}); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(all["own"])), " "); got != step.want {
			t.Errorf("%s: policies %q, want %q", step.what, got, step.want)
		}
		if copied, there := all["own"]["ha"]; there && fmt.Sprint(copied.Pattern, " ", copied.Priority, " ", copied.Definition) != `^payments\. 3 map[ha-mode:all]` {
			t.Errorf("%s: the copy is %+v", step.what, copied)
		}
	}
	if len(all["/"]) != 2 {
		t.Errorf("the vhost / has %v", all["/"])
	}
	if err := policiesFor(t.Context(), all, "own", "own-1", bench.Scenario{Queues: bench.Queues{Like: &bench.Likeness{Name: "a", VHost: "gone"}}}); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("a vhost that is not there: %v", err)
	}
	for i := range mostPolicies {
		all["/"][fmt.Sprint(i)] = broker.Policy{VHost: "/", Name: fmt.Sprint(i)}
	}
	if err := policiesFor(t.Context(), all, "own", "own-1", bench.Scenario{Queues: like}); err == nil || !strings.Contains(err.Error(), "1002 policies") {
		t.Errorf("too many: %v", err)
	}
}
