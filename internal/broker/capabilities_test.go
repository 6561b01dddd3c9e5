package broker

import (
	"slices"
	"testing"
)

func capabilities(t *testing.T, text string) Capabilities {
	t.Helper()
	v, err := ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := CapabilitiesOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCapabilitiesPerLine(t *testing.T) {
	type row struct {
		version                                                                        string
		mirrored, api, partitions, anonymous, reconciles, unlimited, queueTypesInApply bool
	}
	for _, want := range []row{
		{"3.10.8", true, true, true, false, false, false, false},
		{"3.11.28", true, true, true, false, false, false, false},
		{"3.12.14", true, true, true, false, false, false, true},
		{"3.13.7", true, true, true, false, true, false, true},
		{"4.0.5", false, true, true, false, true, true, true},
		{"4.1.0", false, false, true, false, true, true, true},
		{"4.1.1", false, false, true, true, true, true, true},
		{"4.2.9", false, false, true, true, true, true, true},
		{"4.3.6", false, false, false, true, true, true, true},
		{"4.3", false, false, false, true, true, true, true},
	} {
		c := capabilities(t, want.version)
		got := row{want.version, c.MirroredQueues, c.PeerDiscoveryNeedsAPI, c.PartitionHandling, c.AnonymousReadyProbe,
			c.MembershipReconciliation, c.UnlimitedDelivery, c.CanApplyTo(ApplyToQuorumQueues)}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if limited := c.DefaultDeliveryLimit != nil; limited != c.UnlimitedDelivery {
			t.Errorf("%s: default delivery limit %v", want.version, c.DefaultDeliveryLimit)
		}
	}
}

func TestUnsupportedVersionsAreRefusedByName(t *testing.T) {
	for _, v := range []Version{{3, 9, 29}, {4, 4, 0}, {5, 0, 0}, {2, 8, 7}, {3, 14, 0}} {
		if _, err := CapabilitiesOf(v); err == nil {
			t.Errorf("%s has capabilities", v)
		}
	}
}

func TestPolicyKeysPerVersion(t *testing.T) {
	for _, c := range []struct {
		version, key string
		want         bool
	}{
		{"3.10.8", "ha-mode", true},
		{"3.13.7", "ha-mode", true},
		{"4.0.0", "ha-mode", false},
		{"3.10.8", "target-group-size", false},
		{"3.13.0", "target-group-size", true},
		{"3.11.28", "consumer-timeout", false},
		{"3.12.0", "consumer-timeout", true},
		{"4.2.9", "queue-master-locator", true},
		{"4.3.0", "queue-master-locator", false},
		{"4.3.0", "delayed-retry-min", false},
		{"4.3.1", "delayed-retry-min", true},
		{"4.3", "delayed-retry-min", true},
	} {
		if got := slices.Contains(capabilities(t, c.version).PolicyKeys(), c.key); got != c.want {
			t.Errorf("%s knows %q: %v", c.version, c.key, got)
		}
	}
}
