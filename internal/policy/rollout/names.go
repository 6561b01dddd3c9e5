package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/policy"
)

// idPart is how many hexadecimal digits each half of an ID has.
const idPart = 6

// ID of what is rolled out. Its first half follows from what the temporary policies hold too, so that they prove whose they
// are when the status is lost; its second half from the rest of the policy.
func ID(want broker.Policy) string {
	return contentID(want.VHost, want.Name, want.ApplyTo, want.Definition) + digest(want.Pattern, want.Priority)
}

func contentID(vhost, name string, applyTo broker.ApplyTo, definition map[string]any) string {
	return digest(vhost, name, applyTo, broker.NormalizeDefinition(definition))
}

func digest(parts ...any) string {
	text, err := json.Marshal(parts) // maps in the order of their keys
	if err != nil {
		text = fmt.Appendf(nil, "%v", parts) // what came out of JSON goes back into it
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:idPart]
}

// temporary is a policy on the exact names of a part of a batch.
type temporary struct {
	policy broker.Policy
	id     string
	batch  int
	part   int
	names  []string // nil when somebody else wrote another pattern
}

// temporaryName is POLICY~ID-BATCH, and POLICY~ID-BATCH.PART for what does not fit into one pattern.
func temporaryName(policyName, id string, batch, part int) string {
	name := fmt.Sprintf("%s~%s-%d", policyName, id, batch)
	if part > 1 {
		name += "." + strconv.Itoa(part)
	}
	return name
}

// readTemporary reads what a policy would be if it were a temporary one of policyName; ok is false for any other name.
func readTemporary(policyName string, p broker.Policy) (temporary, bool) {
	rest, ok := strings.CutPrefix(p.Name, policyName+"~")
	if !ok {
		return temporary{}, false
	}
	id, number, ok := strings.Cut(rest, "-")
	if !ok || len(id) != 2*idPart {
		return temporary{}, false
	}
	batch, part, parts := strings.Cut(number, ".")
	t := temporary{policy: p, id: id, part: 1}
	t.batch, _ = strconv.Atoi(batch)
	if parts {
		t.part, _ = strconv.Atoi(part)
	}
	t.names, _ = policy.ExactNames(p.Pattern)
	return t, temporaryName(policyName, id, t.batch, t.part) == p.Name && t.batch > 0 && t.part > 0
}

// ownTemporaries finds those of the policy called name: by an ID that is known, or by what they hold. Whatever else has
// such a name is somebody else's. They come with other IDs than id first, then by batch.
func ownTemporaries(name, id string, known []string, policies []broker.Policy) []temporary {
	var out []temporary
	for _, p := range policies {
		t, ok := readTemporary(name, p)
		if !ok {
			continue
		}
		proven := t.names != nil && strings.HasPrefix(t.id, contentID(p.VHost, name, p.ApplyTo, p.Definition))
		if t.id == id || slices.Contains(known, t.id) || proven {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b temporary) int {
		return cmp.Or(-cmp.Compare(order(a.id != id), order(b.id != id)), cmp.Compare(a.id, b.id), cmp.Compare(a.batch, b.batch), cmp.Compare(a.part, b.part))
	})
	return out
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// ofSomeRollout tells whether a policy of anybody is a temporary one on exact names, and so one above its rollout's final
// priority.
func ofSomeRollout(p broker.Policy) bool {
	name, _, found := cutLast(p.Name, "~")
	if !found {
		return false
	}
	t, ok := readTemporary(name, p)
	return ok && t.names != nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
