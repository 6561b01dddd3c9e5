package load

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/broker"
)

const (
	// Label is the tag of vhosts and users that belong to benchmarks.
	Label = "warren-bench"
	// namePrefix begins their names; an id of 128 random bits follows, which nobody else comes upon.
	namePrefix = Label + "-"
	// BeatEvery is how often a run says in its vhost's description that it lives.
	BeatEvery = 20 * time.Second
	// Abandoned is from when on a vhost whose run has not said so is left over.
	Abandoned = 3 * time.Minute
)

// API is what the generator asks of the management API.
type API interface {
	broker.Guest
	broker.NodeReader
	broker.QueueInspector
	DeleteVHost(ctx context.Context, name string) error
}

// ErrCleanupFailed says that something of the run is left on the broker.
var ErrCleanupFailed = errors.New("CleanupFailed")

// Tenant is the vhost and the user of one benchmark.
type Tenant struct {
	// ID is random. Name is that of the vhost and of the user.
	ID, Name, Password string
	api                API
	owner              string
	stop               context.CancelFunc
	beats              sync.WaitGroup
}

// TenantOptions are how a tenant is made.
type TenantOptions struct {
	// ID is 32 hexadecimal digits that nobody else comes upon, and Password is the user's. Default random.
	ID, Password string
	// Owner is the user that the API asks as: the management API shows queues only to those who may see the vhost.
	Owner string
	// Connections bounds those in the vhost. 0 does not.
	Connections int
}

// NewTenant makes the vhost, then the user, and says every BeatEvery that it lives. When it fails, nothing is left, or the
// error says so. Drop removes it.
func NewTenant(ctx context.Context, api API, o TenantOptions) (*Tenant, error) {
	t := &Tenant{ID: cmp.Or(o.ID, randomHex()), Password: cmp.Or(o.Password, randomHex()), api: api, owner: o.Owner}
	t.Name = namePrefix + t.ID
	if !ownName.MatchString(t.Name) {
		return nil, fmt.Errorf("the id %q of a benchmark is not 32 hexadecimal digits", o.ID)
	}
	if err := t.make(ctx, o.Connections); err != nil {
		return nil, errors.Join(err, t.remove(context.WithoutCancel(ctx)))
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.beats.Go(func() {
		for pause(beating, BeatEvery) {
			_ = t.beat(beating) // the next one may succeed; only several that fail make it look abandoned
		}
	})
	return t, nil
}

// make puts the vhost before the user, so that a user without a vhost is always left over.
func (t *Tenant) make(ctx context.Context, connections int) error {
	if err := t.beat(ctx); err != nil {
		return err
	}
	if connections > 0 {
		if err := t.api.LimitVHost(ctx, t.Name, "max-connections", connections); err != nil {
			return err
		}
	}
	if err := t.api.PutUser(ctx, broker.User{Name: t.Name, Password: t.Password, Tags: []string{Label}}); err != nil {
		return err
	}
	if err := t.api.PermitAll(ctx, t.Name, t.Name); err != nil {
		return err
	}
	if t.owner == "" {
		return nil
	}
	return t.api.PermitAll(ctx, t.owner, t.Name)
}

func (t *Tenant) beat(ctx context.Context) error {
	return t.api.PutDescribedVHost(ctx, broker.VHost{
		Name: t.Name, Tags: []string{Label}, Description: describe(t.ID, time.Now()),
	})
}

// Mark is the number that each message of the benchmark carries.
func (t *Tenant) Mark() uint32 {
	raw, _ := hex.DecodeString(t.ID[:8])
	return uint32(raw[0])<<24 | uint32(raw[1])<<16 | uint32(raw[2])<<8 | uint32(raw[3])
}

// Drop removes the user and the vhost with all that is in it, and sees that they are gone. An error is ErrCleanupFailed and
// says what is left and how to remove it.
func (t *Tenant) Drop(ctx context.Context) error {
	t.stop()
	t.beats.Wait()
	return t.remove(ctx)
}

// cleanupAttempts are made a second apart: a broker that was just overloaded may need a moment.
const cleanupAttempts = 5

func (t *Tenant) remove(ctx context.Context) error {
	var err error
	for i := range cleanupAttempts {
		if i > 0 && !pause(ctx, time.Second) {
			break
		}
		if err = removeBoth(ctx, t.api, t.Name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: vhost and user %q may be left on the broker; `warren bench sweep` removes them: %w", ErrCleanupFailed, t.Name, err)
}

// removeBoth deletes user and vhost, and reads that they are gone.
func removeBoth(ctx context.Context, api API, name string) error {
	for _, remove := range []func(context.Context, string) error{api.DeleteUser, api.DeleteVHost} {
		if err := remove(ctx, name); err != nil && !broker.IsNotFound(err) {
			return err
		}
	}
	users, err := api.Users(ctx)
	if err != nil {
		return err
	}
	vhosts, err := api.DescribedVHosts(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(users, func(u broker.User) bool { return u.Name == name }) ||
		slices.ContainsFunc(vhosts, func(v broker.VHost) bool { return v.Name == name }) {
		return fmt.Errorf("the broker said that %q is deleted and lists it still", name)
	}
	return nil
}

// describe is the description of a vhost: what it is, for people, and when its run last said that it lives.
func describe(id string, now time.Time) string {
	return fmt.Sprintf("Warren benchmark %s, alive at %s; removed by `warren bench sweep` when it is not", id, now.UTC().Format(time.RFC3339))
}

var (
	ownName     = regexp.MustCompile(`^` + namePrefix + `([0-9a-f]{32})$`)
	description = regexp.MustCompile(`^Warren benchmark ([0-9a-f]{32}), alive at ([0-9TZ:-]+); `)
)

// isOwn tells whether a name and tags are those of a benchmark. Both must be: a name that looks alike is a user's.
func isOwn(name string, tags []string) bool {
	return ownName.MatchString(name) && slices.Contains(tags, Label)
}

// lastBeat is when the run of a benchmark's vhost last said that it lives. A description that is not the run's is an error.
func lastBeat(v broker.VHost) (time.Time, error) {
	found := description.FindStringSubmatch(v.Description)
	if found == nil || namePrefix+found[1] != v.Name {
		return time.Time{}, fmt.Errorf("vhost %q has the name and tag of a benchmark, but not its description", v.Name)
	}
	return time.Parse(time.RFC3339, found[2])
}

// Leftover is what a benchmark left behind that was killed.
type Leftover struct {
	Name string
	// Beat is when its run last said that it lived; zero for a user without a vhost.
	Beat time.Time
	// Alive runs, and what is unclear, are not removed: Why says it.
	Alive bool
	Why   string
}

// Leftovers finds the vhosts and users of benchmarks. now is the time by the clock that wrote the descriptions; a run is
// taken for abandoned after the age, or at once when nothing may live.
func Leftovers(ctx context.Context, api API, now time.Time, age time.Duration) ([]Leftover, error) {
	// Users first: a run makes its vhost first and removes it last, so a user that has none is left over.
	users, err := api.Users(ctx)
	if err != nil {
		return nil, err
	}
	vhosts, err := api.DescribedVHosts(ctx)
	if err != nil {
		return nil, err
	}
	connections, err := api.Connections(ctx)
	if err != nil {
		return nil, err
	}
	var found []Leftover
	has := map[string]bool{}
	for _, v := range vhosts {
		if !isOwn(v.Name, v.Tags) {
			continue
		}
		has[v.Name] = true
		l := Leftover{Name: v.Name}
		beat, err := lastBeat(v)
		l.Beat = beat
		inUse := slices.ContainsFunc(connections, func(c broker.Connection) bool { return c.VHost == v.Name })
		switch {
		case err != nil:
			l.Alive, l.Why = true, err.Error()
		case now.Sub(beat) < age:
			l.Alive, l.Why = true, fmt.Sprintf("its run was alive %s ago", now.Sub(beat).Round(time.Second))
		case inUse:
			l.Alive, l.Why = true, "it has connections"
		}
		found = append(found, l)
	}
	for _, u := range users {
		if isOwn(u.Name, u.Tags) && !has[u.Name] {
			found = append(found, Leftover{Name: u.Name})
		}
	}
	slices.SortFunc(found, func(a, b Leftover) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Sweep removes what Leftovers found and is not alive, and tells the names.
func Sweep(ctx context.Context, api API, found []Leftover) (removed []string, err error) {
	var failures []error
	for _, l := range found {
		if l.Alive {
			continue
		}
		if err := removeBoth(ctx, api, l.Name); err != nil {
			failures = append(failures, fmt.Errorf("%w: %q: %w", ErrCleanupFailed, l.Name, err))
			continue
		}
		removed = append(removed, l.Name)
	}
	return removed, errors.Join(failures...)
}

func randomHex() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}
