package cluster

import (
	"net/netip"
	"testing"
)

func TestSlotsShareNoAddress(t *testing.T) {
	all := netip.MustParsePrefix("198.18.0.0/15")
	var ranges []netip.Prefix
	for slot := Slot(0); slot < Slots; slot++ {
		ranges = append(ranges, slot.Nodes(), slot.Services())
		for number := 1; number <= MaxNodes; number++ {
			pods := slot.NodePods(number)
			ranges = append(ranges, pods)
			if !slot.Pods().Contains(pods.Addr()) {
				t.Errorf("slot %d: pods of node %d are not in %s", slot, number, slot.Pods())
			}
			if !slot.Nodes().Contains(slot.Node(number)) || slot.Node(number) == slot.Host() {
				t.Errorf("slot %d: node %d has the address %s", slot, number, slot.Node(number))
			}
		}
		if slot.Pods().Contains(slot.Host()) {
			t.Errorf("slot %d: the host counts as a pod, so that its traffic to services is not masqueraded", slot)
		}
	}
	for i, one := range ranges {
		if !all.Contains(one.Addr()) {
			t.Errorf("%s is outside %s", one, all)
		}
		for _, other := range ranges[:i] {
			if one.Overlaps(other) {
				t.Fatalf("%s and %s overlap", one, other)
			}
		}
	}
}

func TestSlotAddresses(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Slot(0).Host().String(), "198.18.0.1"},
		{Slot(1).Node(2).String(), "198.18.16.12"},
		{Slot(1).NodePods(1).String(), "198.18.24.0/24"},
		{Slot(16).APIService().String(), "198.19.1.1"},
		{Slot(31).Pods().String(), "198.19.248.0/21"},
		{Slot(3).Bridge(), "wrn3"},
		{Slot(3).Link(2), "wrn3n2"},
		{Slot(3).Loopback().String(), "127.77.3.1"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	if name := Slot(Slots-1).Link(MaxNodes) + "p"; len(name) > 15 {
		t.Errorf("device name %s is too long for the kernel", name)
	}
}

func TestFreeSlot(t *testing.T) {
	taken := map[Slot]bool{0: true, 1: true, 3: true}
	if got, err := freeSlot(func(s Slot) bool { return taken[s] }); err != nil || got != 2 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := freeSlot(func(Slot) bool { return true }); err == nil {
		t.Error("a slot is free although all are taken")
	}
}
