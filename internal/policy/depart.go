package policy

import (
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
)

// OrphanAfter is how long a QueuePolicy that is being deleted waits for a broker that does not let its policy be removed.
const OrphanAfter = 10 * time.Minute

// handOverTime is how long a departing owner waits for the next owner to record that it has taken over.
const handOverTime = time.Minute

// DepartureVerb is what a QueuePolicy that is being deleted does next.
type DepartureVerb string

// The departure verbs.
const (
	// LetGo: nothing is left to do in the broker.
	LetGo DepartureVerb = "LetGo"
	// RemovePolicy from the broker, then let go.
	RemovePolicy DepartureVerb = "RemovePolicy"
	// Wait and look again.
	Wait DepartureVerb = "Wait"
)

// Events that say how a QueuePolicy went.
const (
	EventRemoved  = "PolicyRemoved"
	EventKept     = "PolicyKept"
	EventOrphaned = "Orphaned"
)

// Departure is a decision about a QueuePolicy that is being deleted, with its reason.
type Departure struct {
	Verb       DepartureVerb
	Event, Why string
	// Keep the policy itself, and remove only what is temporary.
	Keep bool
	// patience is over: a failure to remove the policy no longer holds the object.
	patienceOver bool
}

// Depart decides what becomes of what p owns in a cluster that it has to leave: all of them when it is being deleted.
// since is when it began to leave, as far as this process knows.
func Depart(p *v1alpha1.QueuePolicy, clusterUID string, rivals []Claim, since, now time.Time) Departure {
	mine := ClaimOf(p, clusterUID)
	deleting := !p.DeletionTimestamp.IsZero()
	if deleting {
		since = p.DeletionTimestamp.Time
	}
	waited := now.Sub(since)
	taken, waiting := Successor(mine, rivals)
	switch {
	case clusterUID == "":
		return Departure{Verb: LetGo, Event: EventKept, Why: "its cluster is gone"}
	case !mine.Owns:
		return Departure{Verb: LetGo, Event: EventKept, Why: "this object did not make the broker's policy"}
	case p.Annotations[v1alpha1.AnnotationOrphan] == "true":
		return Departure{Verb: LetGo, Event: EventOrphaned, Why: "left behind as the annotation asks"}
	case taken:
		return Departure{Verb: LetGo, Event: EventKept, Why: "another QueuePolicy has taken it over"}
	case waiting && waited < handOverTime:
		return Departure{Verb: Wait, Why: "another QueuePolicy wants the same policy and is taking it over"}
	}
	d := Departure{Verb: RemovePolicy, Event: EventRemoved, Why: "removed", patienceOver: deleting && waited >= OrphanAfter}
	if p.Spec.DeletionPolicy == v1alpha1.RetainOnDelete { // what is temporary goes nevertheless
		d.Keep, d.Event, d.Why = true, EventKept, "left in force as deletionPolicy Retain says"
	}
	return d
}

// AfterRemoval is what follows an attempt to remove the policy from the broker. One that is gone already is removed.
func AfterRemoval(d Departure, failure error) Departure {
	switch {
	case failure == nil || broker.IsNotFound(failure):
		return Departure{Verb: LetGo, Event: d.Event, Why: d.Why}
	case d.patienceOver:
		return Departure{Verb: LetGo, Event: EventOrphaned, Why: "left behind after " + OrphanAfter.String() + ": " + failure.Error()}
	}
	return Departure{Verb: Wait, Why: "the broker's policy cannot be removed: " + failure.Error()}
}
