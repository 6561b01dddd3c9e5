//go:build broker

package policy_test

import (
	"slices"
	"testing"
)

// TestMirroredLine is what happens on RabbitMQ 3.10.
func TestMirroredLine(t *testing.T) {
	t.Parallel()
	c := newCluster(t, oldVersion, 3)
	t.Run("HATwo", func(t *testing.T) {
		t.Parallel()
		proveMirrors(t, c)
	})
	t.Run("dead letters", func(t *testing.T) {
		t.Parallel()
		proveDeadLetters(t, c, oldVersion)
	})
}

// TestQuorumLine is what happens on RabbitMQ 4.3.
func TestQuorumLine(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newVersion, 3)
	var s *scene
	var l *ledger
	t.Run("group", func(t *testing.T) {
		three := &cluster{nodes: slices.Clone(c.nodes), api: c.api}
		t.Run("dead letters", func(t *testing.T) {
			t.Parallel()
			proveDeadLetters(t, three, newVersion)
		})
		t.Run("growth", func(t *testing.T) {
			t.Parallel()
			s, l = proveGrowth(t, c)
		})
	})
	if !t.Failed() {
		bereaved(t, s, l)
	}
}
