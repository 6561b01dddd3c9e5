// Package route knows where the RabbitMQ clusters of an application are, how to log in to them, and which of them serves a
// queue or an exchange at each step of its move from an old cluster to a new one.
//
// It reads environment variables (RMQ_<CLASS>_HOSTS and others), service bindings and one routes file, and opens no
// connection. What it reads becomes a Table, which never changes; a Source follows the files and gives the next one.
// docs/client-routing.md describes every variable, the file and the order in which a class is found.
package route

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoHosts says that no host is named for a class, or for any.
	ErrNoHosts = errors.New("no hosts")
	// ErrNoRoute says that no class serves a queue or an exchange, or that a class is not known.
	ErrNoRoute = errors.New("no route")
	// ErrNoCredentials says that nothing names a user, or a user has no password. A cluster that knows its clients by
	// their certificates needs neither.
	ErrNoCredentials = errors.New("no credentials")
)

// Phase is the step of its move that a queue, an exchange or a class has reached. Every move begins in Before and ends in
// Settled; what does not move is Settled all the time.
//
//	phase     publish    consume
//	Before    old        old
//	Watching  old        old and new
//	Held      nobody     old and new    publishers wait
//	Flipped   new        old and new
//	Settled   new        new            "new" is the class's cluster; an old one plays no part
//
// All but Settled need an old cluster. A queue whose order matters goes from Held to Settled at once when its old side is
// empty: then it is never read on two sides while both can have messages.
type Phase string

// The phases, in the order of a move.
const (
	Before   Phase = "Before"
	Watching Phase = "Watching"
	Held     Phase = "Held"
	Flipped  Phase = "Flipped"
	Settled  Phase = "Settled"
)

// phases are the known ones, in the order of a move.
var phases = []Phase{Before, Watching, Held, Flipped, Settled}

func parsePhase(text string) (Phase, error) {
	for _, p := range phases {
		if text == string(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is no phase: Before, Watching, Held, Flipped and Settled are", quote(text))
}

// Route is how one queue or exchange is reached at present. It and what it points to are shared: do not change them.
type Route struct {
	// Class that serves it, as the routes file spells it, or else in small letters with "-" for "_".
	Class string
	// Phase of its move.
	Phase Phase
	// Publish is the one cluster to publish to; nil exactly when Hold is set.
	Publish *Cluster
	// Hold says that publishers keep what they have until a later table names a cluster.
	Hold bool
	// Consume are the clusters to consume from, one or two; never empty. Of two the old one comes first: its messages are
	// older.
	Consume []*Cluster
	// Unpack says that a message may be a pack of several, to be taken apart by the consumer.
	Unpack bool
	// DeadLetter is the queue for messages that cannot be handled; "" leaves it to the consumer.
	DeadLetter string
}

// newRoute fills in what the phase says. The old cluster may be nil for Settled only.
func newRoute(class string, phase Phase, current, old *Cluster) (Route, error) {
	r := Route{Class: class, Phase: phase}
	if old == nil && phase != Settled {
		return Route{}, fmt.Errorf("phase %s needs an old cluster", phase)
	}
	if phase == Settled {
		r.Publish, r.Consume = current, []*Cluster{current}
		return r, nil
	}
	if current.samePlace(old) {
		return Route{}, errors.New("the old cluster is the same host and virtual host as the new one")
	}
	switch phase {
	case Before:
		r.Publish, r.Consume = old, []*Cluster{old}
		return r, nil
	case Watching:
		r.Publish = old
	case Held:
		r.Hold = true
	case Flipped:
		r.Publish = current
	}
	r.Consume = []*Cluster{old, current}
	return r, nil
}

// String is for people, as "worker: Held; hold; consume old-rabbit, worker".
func (r Route) String() string {
	publish := "hold"
	if r.Publish != nil {
		publish = "publish " + r.Publish.Name
	}
	names := make([]string, len(r.Consume))
	for i, c := range r.Consume {
		names[i] = c.Name
	}
	return fmt.Sprintf("%s: %s; %s; consume %s", r.Class, r.Phase, publish, strings.Join(names, ", "))
}

// quote is for text that comes from outside: long ones are cut, so that no error is a page long.
func quote(text string) string {
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return fmt.Sprintf("%q", text)
}
