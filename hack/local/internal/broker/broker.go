// Package broker runs single RabbitMQ nodes for tests, straight from the root file system of an image:
// real brokers on loopback without a cluster or Docker. Each has its own mount, process and host name
// namespace, so that killing its first process ends all of it and leaves no mount.
package broker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/proc"
	"github.com/warren-mq/warren/hack/local/internal/rabbit"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/progress"
)

// DefaultPlugins are on unless others are asked for.
var DefaultPlugins = []string{"rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_shovel", "rabbitmq_shovel_management",
	"rabbitmq_federation", "rabbitmq_federation_management"}

// Options are what to start.
type Options struct {
	Name     string
	Owner    string // checkout that it belongs to
	Plugins  []string
	Username string
	Password string
	Join     string // running broker whose cluster it becomes a member of
	// TLS is a folder with ca.pem, cert.pem and key.pem: every listener is then also there with TLS.
	TLS string
	// DiskWrites is how many writes a second the disk of its data makes; 0 is as many as this machine's makes.
	DiskWrites int
	// LinkRate bounds its network both ways, as "20mbit" of tc; empty is loopback.
	LinkRate string
}

// Broker is a started node; its exported JSON is what tests read.
type Broker struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Management string `json:"management"`
	AMQP       string `json:"amqp"`
	Prometheus string `json:"prometheus"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	PID        int    `json:"pid"`
	Dir        string `json:"dir"`
	// With TLS: the same places.
	AMQPS         string `json:"amqps,omitempty"`
	ManagementTLS string `json:"managementTLS,omitempty"`
	PrometheusTLS string `json:"prometheusTLS,omitempty"`
}

// record is the file that a started broker leaves.
type record struct {
	Broker
	Owner    string        `json:"owner"`
	Plugins  []string      `json:"plugins"`
	Identity proc.Identity `json:"identity"`
	Ports    ports         `json:"ports"`
	Seed     string        `json:"seed,omitempty"`   // node that it joins at its first start
	Cookie   string        `json:"cookie,omitempty"` // as all nodes of its cluster have it
	Address  string        `json:"address"`          // where it listens
	LinkRate string        `json:"linkRate,omitempty"`
	Writes   int           `json:"writes,omitempty"` // that its disk makes a second; its data have one of their own then
}

// ports are all the ports of one node.
type ports struct{ AMQP, Management, Prometheus, Dist, EPMD, AMQPS, ManagementTLS, PrometheusTLS int }

const recordFile = "broker.json"

// Start runs a broker and waits until its management API answers the user. A running broker of the same
// name, version and plugins is returned as it is.
func Start(built rabbit.Built, opts Options) (Broker, error) {
	dir, unlock, err := open(opts.Name)
	if err != nil {
		return Broker{}, err
	}
	defer unlock()
	var old record
	if err := state.Read(filepath.Join(dir, recordFile), &old); err == nil && old.Identity.Alive() {
		if old.Version == built.Version && slices.Equal(old.Plugins, opts.Plugins) {
			return old.Broker, nil
		}
		return Broker{}, fmt.Errorf("broker %s runs RabbitMQ %s with plugins %s: stop it first, or choose another --name",
			opts.Name, old.Version, strings.Join(old.Plugins, ","))
	}
	if err := host.RemoveTree(dir); err != nil {
		return Broker{}, err
	}
	var seed record
	if opts.Join != "" && opts.LinkRate != "" {
		return Broker{}, errors.New("a broker with a network of its own cannot join another: leave out one of the two")
	}
	if opts.Join != "" {
		if seed, _, err = running(opts.Join); err != nil {
			return Broker{}, err
		}
		// The users are the cluster's.
		opts.Username, opts.Password = seed.Username, seed.Password
	}
	rec, err := prepare(built, opts, dir, seed)
	if err != nil {
		return Broker{}, err
	}
	what := fmt.Sprintf("starting broker %s, RabbitMQ %s", rec.Name, rec.Version)
	return rec.Broker, progress.Step(what, func() error { return launch(&rec, built) })
}

// open locks the broker's name and returns its folder.
func open(name string) (dir string, unlock func(), err error) {
	if err := state.CheckName(name); err != nil {
		return "", nil, err
	}
	root, err := state.Root()
	if err != nil {
		return "", nil, err
	}
	parent := filepath.Join(root, "brokers")
	unlock, err = cache.Lock(filepath.Join(parent, "."+name+".lock"))
	return filepath.Join(parent, name), unlock, err
}

// prepare chooses ports and writes the broker's files. Nodes of one cluster find each other by one epmd, which the first of
// them to start runs, and know each other by one cookie.
func prepare(built rabbit.Built, opts Options, dir string, seed record) (record, error) {
	free, err := freePorts(8)
	if err != nil {
		return record{}, err
	}
	if opts.Username == "" {
		opts.Username = "warren"
	}
	if opts.Password == "" {
		opts.Password = secret()
	}
	address := loopback
	if opts.LinkRate != "" {
		if address, err = freeAddress(); err != nil {
			return record{}, err
		}
	}
	p := ports{free[0], free[1], free[2], free[3], free[4], free[5], free[6], free[7]}
	rec := record{
		Broker: Broker{
			Name: opts.Name, Version: built.Version, Username: opts.Username, Password: opts.Password, Dir: dir,
			AMQP:       amqpURL("amqp", opts, address, p.AMQP),
			Management: fmt.Sprintf("http://%s:%d", address, p.Management),
			Prometheus: fmt.Sprintf("http://%s:%d", address, p.Prometheus),
		},
		Owner: opts.Owner, Plugins: opts.Plugins, Ports: p, Cookie: secret(), Address: address, LinkRate: opts.LinkRate,
		Writes: opts.DiskWrites,
	}
	if opts.TLS != "" {
		rec.AMQPS = amqpURL("amqps", opts, address, p.AMQPS)
		rec.ManagementTLS = fmt.Sprintf("https://%s:%d", address, p.ManagementTLS)
		rec.PrometheusTLS = fmt.Sprintf("https://%s:%d", address, p.PrometheusTLS)
	}
	if opts.Join != "" {
		rec.Ports.EPMD, rec.Seed, rec.Cookie = seed.Ports.EPMD, seed.node(), seed.Cookie
	}
	if err := folders(dir); err != nil {
		return rec, err
	}
	if rec.Writes > 0 {
		if err := ownDisk(rec); err != nil {
			return rec, err
		}
	}
	return rec, files(rec, opts.TLS)
}

func amqpURL(scheme string, opts Options, address string, port int) string {
	at := url.URL{Scheme: scheme, User: url.UserPassword(opts.Username, opts.Password), Host: fmt.Sprintf("%s:%d", address, port)}
	return at.String()
}

// launch starts the broker's process and waits for it; a failure ends the process and shows its log.
func launch(rec *record, built rabbit.Built) error {
	spec := initSpec{RootFS: built.RootFS, Dir: rec.Dir, Env: environment(*rec, built), Cable: rec.LinkRate != ""}
	if rec.Writes > 0 {
		spec.Cgroup = groupOf(rec.Name)
		if err := limitWrites(*rec, 0); err != nil { // not for starting, which would take minutes
			return err
		}
	}
	specFile := filepath.Join(rec.Dir, "init.json")
	if err := state.Write(specFile, spec); err != nil {
		return err
	}
	log := filepath.Join(rec.Dir, "log")
	namespaces := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC)
	if spec.Cable {
		namespaces |= syscall.CLONE_NEWNET
	}
	id, err := proc.Start(proc.Spec{Path: "/proc/self/exe", Args: []string{InitCommand, specFile}, Log: log, Cloneflags: namespaces})
	if err != nil {
		return err
	}
	if spec.Cable {
		if err := layCable(*rec, id.PID); err != nil {
			return errors.Join(err, id.Stop(0))
		}
	}
	rec.Identity, rec.PID = id, id.PID
	if err := state.Write(filepath.Join(rec.Dir, recordFile), rec); err != nil {
		return errors.Join(err, id.Stop(0))
	}
	if err := awaitReady(*rec); err != nil {
		return errors.Join(err, id.Stop(0), errors.New(proc.Tail(log, 25)))
	}
	if rec.Writes > 0 {
		return limitWrites(*rec, rec.Writes)
	}
	return nil
}

// Kill ends a broker as a power cut does, and keeps its files.
func Kill(name string) error {
	_, unlock, err := open(name)
	if err != nil {
		return err
	}
	defer unlock()
	rec, _, err := find(name)
	if err != nil {
		return err
	}
	return rec.Identity.Stop(0)
}

// VersionOf tells which RabbitMQ a broker is.
func VersionOf(name string) (string, error) {
	rec, _, err := find(name)
	return rec.Version, err
}

// Restart kills a broker if it runs, and starts it again on its data and ports.
func Restart(built rabbit.Built, name string) (Broker, error) {
	_, unlock, err := open(name)
	if err != nil {
		return Broker{}, err
	}
	defer unlock()
	rec, _, err := find(name)
	if err != nil {
		return Broker{}, err
	}
	if rec.Version != built.Version {
		return Broker{}, fmt.Errorf("broker %s has data of RabbitMQ %s, not %s", name, rec.Version, built.Version)
	}
	if err := rec.Identity.Stop(0); err != nil {
		return Broker{}, err
	}
	what := fmt.Sprintf("starting broker %s again", name)
	return rec.Broker, progress.Step(what, func() error { return launch(&rec, built) })
}

// Signal sends a signal to all processes of a broker that may stop or continue them.
func Signal(name string, signal syscall.Signal) error {
	rec, _, err := running(name)
	if err != nil {
		return err
	}
	// The first process leads the group in which the broker runs.
	if err := syscall.Kill(-rec.PID, signal); err != nil {
		return fmt.Errorf("signalling broker %s: %w", name, err)
	}
	return nil
}

// find reads the record of a broker that was started and not stopped.
func find(name string) (rec record, dir string, err error) {
	root, err := state.Root()
	if err != nil {
		return record{}, "", err
	}
	dir = filepath.Join(root, "brokers", name)
	if err := state.Read(filepath.Join(dir, recordFile), &rec); err != nil {
		return record{}, "", fmt.Errorf("no broker %s: %w", name, err)
	}
	return rec, dir, nil
}

// running is find for a broker whose processes must be there.
func running(name string) (record, string, error) {
	rec, dir, err := find(name)
	if err == nil && !rec.Identity.Alive() {
		err = fmt.Errorf("broker %s has ended; its log is %s", name, filepath.Join(dir, "log"))
	}
	return rec, dir, err
}

// Stop ends a broker and removes its files. Its data are of no use to anyone, so it is killed at once.
func Stop(name string) error {
	dir, unlock, err := open(name)
	if err != nil {
		return err
	}
	defer unlock()
	var rec record
	err = state.Read(filepath.Join(dir, recordFile), &rec)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := rec.Identity.Stop(0); err != nil {
		return err
	}
	return errors.Join(host.RemoveTree(dir), removeGroup(name))
}

// List returns the brokers that an owner started and that have not been stopped.
func List(owner string) ([]Broker, error) {
	root, err := state.Root()
	if err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(root, "brokers", "*", recordFile))
	if err != nil {
		return nil, err
	}
	var mine []Broker
	for _, path := range found {
		var rec record
		if err := state.Read(path, &rec); err != nil {
			return nil, err
		}
		if rec.Owner == owner {
			mine = append(mine, rec.Broker)
		}
	}
	return mine, nil
}

// freePorts finds ports that nothing listens on, holding all of them until the last is found. They are none of those that the
// kernel gives to outgoing connections: while a broker is down one of these would take its port.
func freePorts(count int) ([]int, error) {
	const low, high = 10000, 30000
	found := make([]int, 0, count)
	for tries := 0; len(found) < count; tries++ {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", low+mathrand.IntN(high-low)))
		if err != nil {
			if tries > 1000 {
				return nil, err
			}
			continue
		}
		defer func() { _ = listener.Close() }()
		found = append(found, listener.Addr().(*net.TCPAddr).Port)
	}
	return found, nil
}

// secret is a random text of hexadecimal digits.
func secret() string {
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes) // never fails
	return hex.EncodeToString(bytes)
}

// startLimit bounds the wait for a broker: a loaded two-core machine needs up to half a minute.
const startLimit = 2 * time.Minute
