package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// FactsOf are the facts about a cluster that a change of them makes worth a run, sorted by name: its version, image, nodes,
// resources, tuned values, and its QueuePolicies.
func FactsOf(c *v1alpha1.WorkloadCluster, policies []v1alpha1.QueuePolicy) []v1alpha1.TargetFact {
	facts := map[string]string{
		"version":   c.Status.Version,
		"image":     c.Status.Image,
		"nodes":     fmt.Sprint(c.Spec.Replicas),
		"cpu":       c.Spec.Resources.Limits.CPU.String(),
		"memory":    c.Spec.Resources.Limits.Memory.String(),
		"unlimited": fmt.Sprint(c.Spec.Resources.Unlimited),
	}
	addPolicies(facts, policies)
	for _, value := range c.Status.Tuning {
		facts["tuning."+value.Name] = value.Value
	}
	var out []v1alpha1.TargetFact
	for name, value := range facts {
		if value != "" {
			out = append(out, v1alpha1.TargetFact{Name: name, Value: value})
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.TargetFact) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// mostPolicies that have a fact each; of more only a hash of all is a fact, since facts are kept in the status.
const mostPolicies = 20

// addPolicies says of each policy its mode and a hash of its spec.
func addPolicies(facts map[string]string, policies []v1alpha1.QueuePolicy) {
	var specs []string
	for _, p := range policies {
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		text, err := json.Marshal(p.Spec)
		if err != nil { // a definition that is no JSON, which no API server stores
			text = []byte(err.Error())
		}
		specs = append(specs, p.Name+string(text))
		facts["policy."+p.Name] = fmt.Sprintf("%s (%s)", p.Spec.Replication.Mode, hashOf(string(text)))
	}
	if len(specs) <= mostPolicies {
		return
	}
	maps.DeleteFunc(facts, func(name, _ string) bool { return strings.HasPrefix(name, "policy.") })
	slices.Sort(specs)
	facts["policies"] = fmt.Sprintf("%d (%s)", len(specs), hashOf(specs...))
}

func hashOf(specs ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(specs, "\n")))
	return hex.EncodeToString(sum[:4])
}

// Changes says in words how facts differ, as "version: 4.3.5 → 4.3.6"; "" when they do not.
func Changes(before, now []v1alpha1.TargetFact) string {
	was, is := map[string]string{}, map[string]string{}
	var names []string
	for _, f := range before {
		was[f.Name] = f.Value
		names = append(names, f.Name)
	}
	for _, f := range now {
		is[f.Name] = f.Value
		if _, known := was[f.Name]; !known {
			names = append(names, f.Name)
		}
	}
	var out []string
	for _, name := range names {
		if was[name] == is[name] {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s → %s", name, orNone(was[name]), orNone(is[name])))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
