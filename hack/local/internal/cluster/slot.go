package cluster

import (
	"fmt"
	"net/netip"
)

// Slot is a number that one cluster of this machine has; all its addresses and device names derive from
// it, so that several clusters run side by side. Each slot has 4,096 addresses of 198.18.0.0/15, a range
// that no network routes:
//
//	+0.0/24  nodes: .1 the host (API server, DNS), .10+N node N
//	+1.0/24  services
//	+8.0/21  pods: +(7+N).0/24 on node N
type Slot int

// Slots is how many clusters fit, MaxNodes how many nodes a cluster can have.
const (
	Slots    = 32
	MaxNodes = 8
)

// address is the address with the given last two numbers, relative to the slot's range.
func (s Slot) address(third, fourth int) netip.Addr {
	third += int(s) * 16
	return netip.AddrFrom4([4]byte{198, byte(18 + third/256), byte(third % 256), byte(fourth)})
}

// Bridge is the device on the host that joins the nodes.
func (s Slot) Bridge() string { return fmt.Sprintf("wrn%d", s) }

// Link is the host's end of the cable to a node.
func (s Slot) Link(node int) string { return fmt.Sprintf("wrn%dn%d", s, node) }

// Host is the host's address on the bridge.
func (s Slot) Host() netip.Addr { return s.address(0, 1) }

// Node is the address of a node; the first is number 1.
func (s Slot) Node(number int) netip.Addr { return s.address(0, 10+number) }

// Nodes is the range of the host and the nodes.
func (s Slot) Nodes() netip.Prefix { return netip.PrefixFrom(s.address(0, 0), 24) }

// Services is the range of service addresses.
func (s Slot) Services() netip.Prefix { return netip.PrefixFrom(s.address(1, 0), 24) }

// APIService is the address of the service "kubernetes".
func (s Slot) APIService() netip.Addr { return s.address(1, 1) }

// Pods is the range of all pods. It leaves out the host, whose traffic to services must be masqueraded.
func (s Slot) Pods() netip.Prefix { return netip.PrefixFrom(s.address(8, 0), 21) }

// NodePods is the range of the pods of one node.
func (s Slot) NodePods(number int) netip.Prefix { return netip.PrefixFrom(s.address(7+number, 0), 24) }

// Loopback is where processes of the host listen that only this host may reach.
func (s Slot) Loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 77, byte(s), 1}) }

// freeSlot is the lowest slot that is not taken.
func freeSlot(taken func(Slot) bool) (Slot, error) {
	for s := Slot(0); s < Slots; s++ {
		if !taken(s) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("all %d slots for clusters are taken: end one with `down --name NAME`", Slots)
}
