//go:build api

package controllers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// warrenUser is who the manager of the tests is to the API server. It has the rights of config/rbac/role.yaml and no others, so
// that a missing one fails the test that needs it.
const warrenUser = "warren-under-test"

// auditPolicy records what the manager asks for.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, users: [` + warrenUser + `]}
  - level: None
`

// grantedOn are rights that no request of Warren uses, with what they are for.
var grantedOn = map[right]string{
	{"", "endpoints", "get"}: "the Roles of clusters up to 4.0 have it, and nobody can give what he has not",
	{"", "events", "create"}: "the same",
	{"rabbitmq.warren.dev", "workloadclusters/finalizers", "update"}: "owner references that block deletion, where the API server asks for that",
	{"rabbitmq.warren.dev", "benchmarks/finalizers", "update"}:       "the same",
	{"events.k8s.io", "events", "patch"}:                             "an event that happens again is counted up some minutes later",
	{"rbac.authorization.k8s.io", "roles", "delete"}:                 "a move of a cluster from 4.0 to a later line, where no node asks the API server any more",
	{"rbac.authorization.k8s.io", "rolebindings", "delete"}:          "the same",
	{"", "secrets", "delete"}:                                        "whatever a cluster consists of is deleted when its spec wants it no more",
	{"", "services", "delete"}:                                       "the same",
	{"policy", "poddisruptionbudgets", "delete"}:                     "the same",
	{"rabbitmq.warren.dev", "workloadclusters", "get"}:               "whoever watches may read one, as a person who looks for what Warren sees does",
	{"rabbitmq.warren.dev", "queuepolicies", "get"}:                  "the same",
}

// right is one verb on one resource.
type right struct{ group, resource, verb string }

func (r right) String() string { return fmt.Sprintf("%s %s.%s", r.verb, r.resource, r.group) }

// audited makes an API server that writes down what the manager asks for.
func audited(environment *envtest.Environment, dir string) (log string, err error) {
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	environment.ControlPlane.GetAPIServer().Configure().Append("audit-policy-file", policy).Append("audit-log-path", log)
	return log, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

func roleOfWarren() (*rbacv1.ClusterRole, error) {
	text, err := os.ReadFile(filepath.Join("..", "config", "rbac", "role.yaml"))
	if err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{}
	return role, yaml.UnmarshalStrict(text, role)
}

// asWarren is a user with Warren's own rights.
func asWarren(environment *envtest.Environment) (*rest.Config, error) {
	role, err := roleOfWarren()
	if err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: warrenUser}},
	}
	binding.Name = warrenUser
	if err := errors.Join(kube.Create(context.Background(), role), kube.Create(context.Background(), binding)); err != nil {
		return nil, err
	}
	user, err := environment.AddUser(envtest.User{Name: warrenUser}, nil)
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// superfluous compares the role with what the whole suite has used of it, and names what is in the way of least rights.
func superfluous(log string) error {
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" {
		return nil // a part of the suite uses a part of the rights
	}
	used, err := usedRights(log)
	if err != nil {
		return err
	}
	role, err := roleOfWarren()
	if err != nil {
		return err
	}
	var wrong []string
	granted := map[right]bool{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					r := right{group, resource, verb}
					granted[r] = true
					if !used[r] && grantedOn[r] == "" && !listsToWatch(r, used) {
						wrong = append(wrong, r.String()+" is granted and never used")
					}
				}
			}
		}
	}
	for r := range used {
		if !granted[r] {
			wrong = append(wrong, r.String()+" is used and not granted")
		}
	}
	for r := range grantedOn {
		if !granted[r] {
			wrong = append(wrong, r.String()+" is explained and not granted")
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return fmt.Errorf("config/rbac/role.yaml and what the suite does differ:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}

// listsToWatch: an informer lists only where the API server does not send what there is with the watch.
func listsToWatch(r right, used map[right]bool) bool {
	return r.verb == "list" && used[right{r.group, r.resource, "watch"}]
}

// usedRights reads the audit log. An apply that makes an object needs the right to create it too.
func usedRights(log string) (map[right]bool, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	used := map[right]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			ObjectRef      *struct{ Resource, APIGroup, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, err
		}
		if event.ObjectRef == nil || event.ResponseStatus.Code == 403 && event.ObjectRef.Subresource != "eviction" {
			continue // discovery, or what was refused
		}
		r := right{event.ObjectRef.APIGroup, event.ObjectRef.Resource, event.Verb}
		if event.ObjectRef.Subresource != "" {
			r.resource += "/" + event.ObjectRef.Subresource
		}
		used[r] = true
		if event.Verb == "patch" && event.ResponseStatus.Code == 201 {
			r.verb = "create"
			used[r] = true
		}
	}
	return used, lines.Err()
}
