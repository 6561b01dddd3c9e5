package controllers

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// policyMemory is what a process remembers of its passes. Nothing is wrong when it is lost.
type policyMemory struct {
	mu sync.Mutex
	// wrote is when a policy was last written in a broker: what was read before does not have it.
	wrote map[memoryKey]time.Time
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
	key := memoryKey{client.ObjectKeyFromObject(p), uid}
	written, has := m.wrote[key]
	switch {
	case !has:
		return oldest
	case written.Before(oldest):
		delete(m.wrote, key)
		return oldest
	}
	return written
}

// wrote remembers that something was written, or may have been.
func (r *QueuePolicyReconciler) wrote(p *v1alpha1.QueuePolicy, uid string) {
	m := &r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrote == nil {
		m.wrote, m.vhosts = map[memoryKey]time.Time{}, map[vhostKey]time.Time{}
	}
	m.wrote[memoryKey{client.ObjectKeyFromObject(p), uid}] = r.Now()
	m.vhosts[vhostKey{uid, p.Spec.VHost}] = r.Now()
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
	for _, of := range []map[memoryKey]time.Time{m.wrote, m.leaving} {
		for key := range of {
			if key.object == object {
				delete(of, key)
			}
		}
	}
}
