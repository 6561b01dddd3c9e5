package controllers

import (
	"maps"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// policyMemory is what a process remembers of its passes. Nothing is wrong when it is lost.
type policyMemory struct {
	mu sync.Mutex
	// wrote is when a broker's policy was last written or removed, by whatever object: what was read before does not show it.
	wrote map[brokerPolicy]time.Time
	swept time.Time
	// turns are held by rollouts of one vhost while they look, decide and write; vhosts is when one was last written.
	turns  map[vhostKey]*sync.Mutex
	vhosts map[vhostKey]time.Time
	// leaving is since when a policy has been waiting to be removed from a broker.
	leaving map[memoryKey]time.Time
	// writing are the policies whose last pass wrote.
	writing map[client.ObjectKey]bool
}

type vhostKey struct{ broker, vhost string }

// turn waits for the turn of a rollout in a vhost, and answers what ends it.
func (m *policyMemory) turn(uid, vhost string) (end func()) {
	m.mu.Lock()
	if m.turns == nil {
		m.turns = map[vhostKey]*sync.Mutex{}
	}
	turn := m.turns[vhostKey{uid, vhost}]
	if turn == nil {
		turn = &sync.Mutex{}
		m.turns[vhostKey{uid, vhost}] = turn
	}
	m.mu.Unlock()
	turn.Lock()
	return turn.Unlock
}

// vhostWritten is when a vhost was last written by any policy; the zero time when that is not known.
func (m *policyMemory) vhostWritten(uid, vhost string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vhosts[vhostKey{uid, vhost}]
}

type memoryKey struct {
	object client.ObjectKey
	broker string // UID
}

// notOlderThan is from when on an answer of the broker must be that a pass may use.
func (r *QueuePolicyReconciler) notOlderThan(p *v1alpha1.QueuePolicy, uid string) time.Time {
	m := &r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := r.Now().Add(-r.PollInterval)
	if written, has := m.wrote[brokerPolicyOf(p, uid)]; has && written.After(oldest) {
		return written
	}
	return oldest
}

type brokerPolicy struct{ broker, vhost, name string }

func brokerPolicyOf(p *v1alpha1.QueuePolicy, uid string) brokerPolicy {
	return brokerPolicy{uid, p.Spec.VHost, p.BrokerPolicyName()}
}

// wrote remembers that something was written, or may have been.
func (r *QueuePolicyReconciler) wrote(p *v1alpha1.QueuePolicy, uid string) {
	m := &r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrote == nil {
		m.wrote, m.vhosts = map[brokerPolicy]time.Time{}, map[vhostKey]time.Time{}
	}
	now := r.Now()
	if now.Sub(m.swept) > r.PollInterval { // older ones tell nothing any more
		m.swept = now
		maps.DeleteFunc(m.wrote, func(_ brokerPolicy, at time.Time) bool { return now.Sub(at) > r.PollInterval })
	}
	m.wrote[brokerPolicyOf(p, uid)] = now
	m.vhosts[vhostKey{uid, p.Spec.VHost}] = now
}

// writes remembers whether the last pass wrote, and answers whether the one before did.
func (m *policyMemory) writes(p *v1alpha1.QueuePolicy, now bool) (before bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writing == nil {
		m.writing = map[client.ObjectKey]bool{}
	}
	key := client.ObjectKeyFromObject(p)
	before = m.writing[key]
	if now {
		m.writing[key] = true
	} else {
		delete(m.writing, key)
	}
	return before
}

// leavingSince is when p began to leave a broker, as far as this process knows.
func (m *policyMemory) leavingSince(p *v1alpha1.QueuePolicy, uid string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving == nil {
		m.leaving = map[memoryKey]time.Time{}
	}
	key := memoryKey{client.ObjectKeyFromObject(p), uid}
	if _, has := m.leaving[key]; !has {
		m.leaving[key] = now
	}
	return m.leaving[key]
}

// left forgets that p was leaving a broker, or with "" everything of an object that is gone.
func (m *policyMemory) left(p *v1alpha1.QueuePolicy, uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object := client.ObjectKeyFromObject(p)
	delete(m.leaving, memoryKey{object, uid})
	if uid != "" {
		return
	}
	delete(m.writing, object)
	maps.DeleteFunc(m.leaving, func(key memoryKey, _ time.Time) bool { return key.object == object })
}
