package broker_test

import (
	"context"
	"strings"
	"testing"
)

// part of the suite.
type part struct {
	name string
	run  func(*testing.T, *subject)
}

// TestContract runs the whole suite against every subject.
func TestContract(t *testing.T) {
	for _, one := range subjects {
		t.Run(one.name, func(t *testing.T) {
			s := one.start(t)
			for _, part := range append([]part{
				{"policies", testPolicies},
				{"refusals", testRefusals},
				{"names", testNames},
				{"errors", testErrors},
				{"queues", testQueues},
				{"pages", testPages},
				{"nodes", testNodes},
				{"guests", testGuests},
				{"parameters", testParameters},
				{"table", testTable},
				{"operator-policies", testOperatorPolicies},
				{"topology", testTopology},
				{"default-queue-type", testDefaultQueueType},
				{"sizes", testSizes},
				{"statistics-off", testStatisticsOff},
				{"backlogs", testBacklogs},
			}, s.more...) {
				t.Run(part.name, func(t *testing.T) { part.run(t, s) })
			}
			t.Run("nothing-is-left-behind", func(t *testing.T) { testNothingLeft(t, s) })
		})
	}
}

func testNothingLeft(t *testing.T, s *subject) {
	vhosts, err := s.client(t).VHosts(context.Background())
	must(t, err)
	for _, name := range vhosts {
		if strings.HasPrefix(name, prefix) {
			t.Errorf("vhost %q is left", name)
		}
	}
}
