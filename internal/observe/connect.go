package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/desired"
	"github.com/warren-mq/warren/internal/policy"
)

// Keys of a connection Secret.
const (
	keyManagementURI = "managementUri"
	keyUsername      = "username"
	keyPassword      = "password"
	keyCA            = "ca.crt"
)

// Connect hands out a client of the cluster's broker, with the credentials that are in force now.
func (r Reader) Connect(ctx context.Context, c *v1alpha1.WorkloadCluster) (broker.Client, error) {
	target, err := r.targetOf(ctx, c)
	if err != nil {
		return nil, err
	}
	return r.Connector.Connect(target)
}

func (r Reader) targetOf(ctx context.Context, c *v1alpha1.WorkloadCluster) (broker.Target, error) {
	var admin corev1.Secret
	key := client.ObjectKey{Namespace: c.Namespace, Name: desired.AdminSecretName(c.Name)}
	if err := r.Cached.Get(ctx, key, &admin); client.IgnoreNotFound(err) != nil {
		return broker.Target{}, fmt.Errorf("get Secret %s: %w", key.Name, err)
	}
	return Target(c, &admin)
}

// Open hands out the broker of a target, whose answers all passes share. fresh reads a connection Secret anew.
func (r Reader) Open(ctx context.Context, namespace string, t policy.Target, fresh bool) (Broker, error) {
	var target broker.Target
	var err error
	if t.Cluster != nil {
		target, err = r.targetOf(ctx, t.Cluster)
	} else {
		target, err = r.connection(ctx, namespace, t.Secret, fresh)
	}
	if err != nil {
		return Broker{}, err
	}
	api, err := r.Connector.Connect(target)
	if err != nil {
		return Broker{}, err
	}
	uid := target.Key
	if t.Cluster == nil { // one broker for two users is one broker
		uid = External(target.URL)
	}
	return Broker{Client: api, UID: uid, snapshots: r.Snapshots, shared: r.Snapshots.of(target)}, nil
}

// Plain tells whether the broker is spoken to without TLS.
func (b Broker) Plain() bool { return strings.HasPrefix(b.shared.target.URL, "http:") }

// External is the UID of a broker that Warren does not run: it is known by its address.
func External(url string) string {
	sum := sha256.Sum256([]byte(strings.TrimSuffix(strings.ToLower(url), "/")))
	return policy.ExternalPrefix + hex.EncodeToString(sum[:16])
}

// secret is what a connection Secret says.
type secret struct {
	target broker.Target
	fault  string
}

// connection reads a connection Secret, which the informers do not have: at most once a poll for all who need it, or anew.
func (r Reader) connection(ctx context.Context, namespace, name string, fresh bool) (broker.Target, error) {
	s := r.Snapshots
	notOlderThan := s.now().Add(-s.poll)
	if fresh {
		notOlderThan = s.now().Add(-min(s.poll, time.Second)) // all who were refused at once ask once
	}
	read, _, err := s.secretOf(namespace+"/"+name).get(ctx, s, notOlderThan, anything[secret], func(ctx context.Context) (secret, error) {
		return r.readConnection(ctx, namespace, name)
	})
	switch {
	case err != nil:
		return broker.Target{}, err
	case read.fault != "":
		return broker.Target{}, fmt.Errorf("Secret %s %s", name, read.fault)
	}
	return read.target, nil
}

func (r Reader) readConnection(ctx context.Context, namespace, name string) (secret, error) {
	var object corev1.Secret
	found, err := r.direct(ctx, namespace, name, &object)
	switch {
	case err != nil:
		return secret{}, err
	case !found:
		return secret{fault: "of connectionSecretRef does not exist in this namespace"}, nil
	}
	for _, key := range []string{keyManagementURI, keyUsername, keyPassword} {
		if len(object.Data[key]) == 0 {
			return secret{fault: "has no " + key + ": it needs managementUri, username and password, and ca.crt unless the system trusts the server"}, nil
		}
	}
	return secret{target: broker.Target{
		Key:      namespace + "/" + name,
		URL:      strings.TrimSpace(string(object.Data[keyManagementURI])),
		Username: string(object.Data[keyUsername]),
		Password: string(object.Data[keyPassword]),
		CABundle: string(object.Data[keyCA]),
	}}, nil
}

func (s *Snapshots) secretOf(key string) *cell[secret] {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.secrets[key]
	if c == nil {
		c = &cell[secret]{}
		s.secrets[key] = c
	}
	return c
}
