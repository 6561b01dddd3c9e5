package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/broker"
)

// Danger is why a cluster must not be put under load.
type Danger struct {
	// Production: it is, or may be, somebody's production. Whoever answers for it may allow it; nobody can allow the others.
	Production bool
	Reason     string
}

// Dangers looks at a cluster before a benchmark with these scenarios: alarms, nodes that are down, traffic of others, and
// room on the disks. What the broker does not say counts as a danger.
func Dangers(ctx context.Context, api API, scenarios []bench.Scenario) ([]Danger, error) {
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var found []Danger
	for _, n := range nodes {
		found = append(found, nodeDangers(n, scenarios)...)
	}
	others, err := production(ctx, api)
	return append(found, others...), err
}

func nodeDangers(n broker.Node, scenarios []bench.Scenario) (found []Danger) {
	if !n.Running {
		return []Danger{{Reason: fmt.Sprintf("node %s is not running", n.Name)}}
	}
	for what, alarm := range map[string]*bool{"memory": n.MemoryAlarm, "disk": n.DiskAlarm} {
		if alarm != nil && *alarm {
			found = append(found, Danger{Reason: fmt.Sprintf("node %s has a %s alarm", n.Name, what)})
		}
	}
	if n.DiskFree == nil || n.DiskFreeLimit == nil {
		return append(found, Danger{Production: true, Reason: fmt.Sprintf("node %s does not say how much of its disk is free", n.Name)})
	}
	room := *n.DiskFree - *n.DiskFreeLimit
	for _, s := range scenarios {
		most := MostBytes(s)
		if most == 0 && s.Publishers.Count > 0 {
			found = append(found, Danger{Production: true, Reason: fmt.Sprintf(
				"scenario %s has no caps.disk: nothing keeps it from filling the disk of node %s", s.Name, n.Name)})
		}
		if most > room {
			found = append(found, Danger{Reason: fmt.Sprintf(
				"scenario %s may put %s on disk, and node %s has %s above its limit: lower caps.disk or the backlog",
				s.Name, bench.Size(most), n.Name, bench.Size(max(room, 0)))})
		}
	}
	return found
}

// MostBytes is how much a scenario may have on disk at once, in bytes of bodies: its cap, or its backlog if that is less. 0 is
// for no bound.
func MostBytes(s bench.Scenario) int64 {
	most := int64(s.Caps.Disk)
	if s.Backlog == nil || s.Consumers.Count == 0 {
		return most
	}
	largest := bench.MinBody
	for _, size := range s.Message.Sizes {
		largest = max(largest, size)
	}
	if backlog := s.Backlog.Messages * int64(largest); most == 0 || backlog < most {
		return backlog
	}
	return most
}

// production finds traffic and messages of others.
func production(ctx context.Context, api API) (found []Danger, err error) {
	danger := func(format string, a ...any) {
		found = append(found, Danger{Production: true, Reason: fmt.Sprintf(format, a...)})
	}
	totals, err := api.Totals(ctx)
	if err != nil {
		return nil, err
	}
	connections, err := api.Connections(ctx)
	if err != nil {
		return nil, err
	}
	vhosts, err := api.DescribedVHosts(ctx)
	if err != nil {
		return nil, err
	}
	users, ghosts := usersOf(connections, vhosts)
	if other := livingTenant(vhosts, "", time.Now()); other != "" { // its connections come into the statistics up to 5 s late
		danger("another benchmark is at work, or was killed less than %s ago: vhost %s", living, other)
	}
	switch {
	case len(users) > 0:
		danger("%d connections are open, of %s", len(connections)-ghosts, strings.Join(first(users, 3), ", "))
	case totals.Connections == nil:
		danger("the broker does not say whether others are connected: its statistics are off or not there yet")
	case *totals.Connections > int64(ghosts):
		danger("%d connections are open", *totals.Connections-int64(ghosts))
	}
	switch {
	case totals.Queues != nil && *totals.Queues == 0:
	case totals.Messages == nil:
		danger("the broker does not say whether its queues have messages: its statistics are off or not there yet")
	case *totals.Messages > 0:
		danger("%d messages wait in queues", *totals.Messages)
	}
	return found, nil
}

// usersOf says in words who is connected. Ghosts are connections in vhosts of benchmarks that are gone: after thousands of
// connections at once the statistics of older versions show some for long, although a vhost takes its connections with it.
func usersOf(connections []broker.Connection, vhosts []broker.VHost) (users map[string]bool, ghosts int) {
	users = map[string]bool{}
	for _, c := range connections {
		there := slices.ContainsFunc(vhosts, func(v broker.VHost) bool { return v.Name == c.VHost })
		switch {
		case ownName.MatchString(c.VHost) && !there:
			ghosts++
		case ownName.MatchString(c.VHost):
			users["another benchmark"] = true
		case c.User != "":
			users["user "+c.User] = true
		}
	}
	return users, ghosts
}

// living is within what time a benchmark that runs has said so.
const living = 2 * BeatEvery

// livingTenant is the vhost of a benchmark that runs, but for own; "" for none.
func livingTenant(vhosts []broker.VHost, own string, now time.Time) string {
	for _, v := range vhosts {
		if v.Name == own || !isOwn(v.Name, v.Tags) {
			continue
		}
		if beat, err := lastBeat(v); err == nil && now.Sub(beat) < living {
			return v.Name
		}
	}
	return ""
}

// first n keys, for people.
func first(set map[string]bool, n int) (keys []string) {
	for key := range set {
		if len(keys) == n {
			return append(keys, "…")
		}
		keys = append(keys, key)
	}
	return keys
}

// Capped is the scenario with what its caps, or those of the command line, take from it. What needs more connections than
// allowed is an error.
func Capped(s bench.Scenario, rate float64, connections int, disk bench.Size) (bench.Scenario, error) {
	lower := func(have, cap float64) float64 {
		if cap > 0 && (have == 0 || cap < have) {
			return cap
		}
		return have
	}
	s.Caps.Rate = lower(s.Caps.Rate, rate)
	s.Caps.Connections = int(lower(float64(s.Caps.Connections), float64(connections)))
	s.Caps.Disk = bench.Size(lower(float64(s.Caps.Disk), float64(disk)))
	if most := s.Caps.Connections; most > 0 && s.Connections() > most {
		return s, fmt.Errorf("scenario %s needs %d connections, and %d are allowed", s.Name, s.Connections(), most)
	}
	return s, nil
}
