package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/node"
)

// command runs a program and reports what it said when it fails.
func command(name string, args ...string) error {
	said, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}

// ip runs the ip command with arguments written as one text.
func ip(format string, args ...any) error {
	return command("ip", strings.Fields(fmt.Sprintf(format, args...))...)
}

// inside runs the ip command in the network of a process.
func inside(pid int, format string, args ...any) error {
	words := strings.Fields(fmt.Sprintf(format, args...))
	return command("nsenter", append([]string{"--target", strconv.Itoa(pid), "--net", "--", "ip"}, words...)...)
}

// ensureBridge makes the bridge on the host with its address.
func (c *Cluster) ensureBridge() error {
	bridge := c.Slot.Bridge()
	// Bridged traffic passes iptables only with this module, and services inside a node need that. A kernel
	// that has it built in has no module to load.
	for _, module := range []string{"br_netfilter", "overlay"} {
		_ = exec.Command("modprobe", module).Run()
	}
	if _, err := net.InterfaceByName(bridge); err == nil {
		return nil
	}
	if err := ip("link add %s type bridge", bridge); err != nil {
		return err
	}
	return errors.Join(
		ip("link set dev %s alias %s", bridge, c.Dir),
		ip("address add %s/%d dev %s", c.Slot.Host(), c.Slot.Nodes().Bits(), bridge),
		ip("link set %s up", bridge),
		c.forwarding(true),
	)
}

// slotOfBridge finds the slot of a cluster by the alias of its bridge, for a state file that is lost; -1 if
// there is no bridge.
func slotOfBridge(dir string) Slot {
	for slot := Slot(0); slot < Slots; slot++ {
		alias, err := os.ReadFile("/sys/class/net/" + slot.Bridge() + "/ifalias")
		if err == nil && strings.TrimSpace(string(alias)) == dir {
			return slot
		}
	}
	return -1
}

// removeBridge removes the bridge; its addresses and routes go with it.
func (c *Cluster) removeBridge() error {
	if err := c.forwarding(false); err != nil {
		return err
	}
	devices, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, device := range devices {
		if device.Name == c.Slot.Bridge() || strings.HasPrefix(device.Name, c.Slot.Bridge()+"n") {
			// The kernel removes a node's cable by itself a moment after the node has ended.
			if err := ip("link delete %s", device.Name); err != nil && exists(device.Name) {
				return err
			}
		}
	}
	return nil
}

func exists(device string) bool {
	_, err := net.InterfaceByName(device)
	return err == nil
}

// forwarding allows traffic between nodes, or withdraws that, on a host whose policy is to drop it (Docker
// sets it so). On others the rules of the host stay as they are.
func (c *Cluster) forwarding(allow bool) error {
	rules, err := exec.Command("iptables", "-S", "FORWARD").Output()
	if err != nil {
		return nil // no iptables in this kernel: nothing drops
	}
	present := strings.Contains(string(rules), " "+c.Slot.Bridge()+" ")
	if allow == present || (allow && strings.Contains(string(rules), "-P FORWARD ACCEPT")) {
		return nil
	}
	action := "-D"
	if allow {
		action = "-I"
	}
	bridge := c.Slot.Bridge()
	return command("iptables", "-w", action, "FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT",
		"-m", "comment", "--comment", "warren-local:"+c.Name)
}

// connect lays the cable between the bridge and a node that has just started.
func (c *Cluster) connect(number, pid int) error {
	link, peer := c.Slot.Link(number), c.Slot.Link(number)+"p"
	if exists(link) {
		if err := ip("link delete %s", link); err != nil && exists(link) {
			return err
		}
	}
	steps := []func() error{
		func() error { return ip("link add %s type veth peer name %s", link, peer) },
		func() error { return ip("link set %s netns %d name eth0", peer, pid) },
		func() error { return ip("link set %s master %s up", link, c.Slot.Bridge()) },
		func() error { return inside(pid, "link set lo up") },
		func() error {
			return inside(pid, "address add %s/%d dev eth0", c.Slot.Node(number), c.Slot.Nodes().Bits())
		},
		func() error { return inside(pid, "link set eth0 up") },
		func() error { return inside(pid, "route add default via %s", c.Slot.Host()) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return os.WriteFile(node.NetworkReady(c.nodeDir(number)), nil, 0o644)
}

// routes tells the host and every node where the pods of each node are, and the host where services are:
// the first node translates their addresses.
func (c *Cluster) routes() error {
	bridge := c.Slot.Bridge()
	errs := []error{ip("route replace %s via %s dev %s", c.Slot.Services(), c.Slot.Node(c.Nodes[0].Number), bridge)}
	for _, to := range c.Nodes {
		pods, via := c.Slot.NodePods(to.Number), c.Slot.Node(to.Number)
		errs = append(errs, ip("route replace %s via %s dev %s", pods, via, bridge))
		for _, from := range c.Nodes {
			if from.Number != to.Number {
				errs = append(errs, inside(from.Process.PID, "route replace %s via %s dev eth0", pods, via))
			}
		}
	}
	return errors.Join(errs...)
}
