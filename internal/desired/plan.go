package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Key names an object within the cluster's namespace.
type Key struct{ Kind, Name string }

// KeyOf is the key of an object that carries its kind.
func KeyOf(o Object) Key {
	return Key{Kind: o.GetObjectKind().GroupVersionKind().Kind, Name: o.GetName()}
}

// Plan is what to do so that the API server has what is wanted.
type Plan struct {
	// Apply these, in this order; whole intents as plain data, without status.
	Apply []map[string]any
	// Delete these: made for this cluster once, and wanted no more.
	Delete []Object
	// Taken are wanted objects whose name belongs to somebody else, with the reason; if there is one, nothing is done.
	Taken []string
	// Leaving are wanted objects of an earlier cluster of this name that Kubernetes is about to collect; until they are
	// gone nothing is done either, and there is nothing for a person to do.
	Leaving []string
}

// PlanObjects compares what is wanted with what is there. An object is left alone when it has everything that is wanted
// and what is wanted has not changed since it was last applied; what others added to it is not looked at. Those of held that are
// there stay as they are.
func PlanObjects(c *v1alpha1.WorkloadCluster, wanted []Object, live map[Key]Object, held map[Key]bool) (Plan, error) {
	var plan Plan
	keep := map[Key]bool{}
	for _, object := range wanted {
		key := KeyOf(object)
		keep[key] = true
		intent, err := intentOf(object)
		if err != nil {
			return Plan{}, fmt.Errorf("%s %s: %w", key.Kind, key.Name, err)
		}
		there, exists := live[key]
		if exists {
			if fromEarlier(c, there) {
				plan.Leaving = append(plan.Leaving, key.Kind+" "+key.Name)
				continue
			}
			if why := taken(c, there); why != "" {
				plan.Taken = append(plan.Taken, fmt.Sprintf("%s %s %s", key.Kind, key.Name, why))
				continue
			}
			settled, err := satisfied(intent, there)
			if err != nil {
				return Plan{}, fmt.Errorf("%s %s: %w", key.Kind, key.Name, err)
			}
			if settled || held[key] {
				continue
			}
		}
		plan.Apply = append(plan.Apply, intent)
	}
	for key, object := range live {
		if !keep[key] && metav1.IsControlledBy(object, c) {
			plan.Delete = append(plan.Delete, object)
		}
	}
	if len(plan.Taken)+len(plan.Leaving) > 0 {
		return Plan{Taken: plan.Taken, Leaving: plan.Leaving}, nil
	}
	slices.SortFunc(plan.Delete, func(a, b Object) int {
		x, y := KeyOf(a), KeyOf(b)
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Kind, y.Kind))
	})
	return plan, nil
}

// fromEarlier tells whether an object belongs to a cluster of this name that is no more: two do not exist at once.
func fromEarlier(c *v1alpha1.WorkloadCluster, o Object) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID != c.UID && owner.Name == c.Name && owner.Kind == "WorkloadCluster" &&
		strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/")
}

// taken says why an object is not ours: somebody else controls it, or nobody does and it was not made for this cluster.
func taken(c *v1alpha1.WorkloadCluster, o Object) string {
	owner := metav1.GetControllerOf(o)
	switch {
	case owner != nil && owner.UID == c.UID:
		return ""
	case owner != nil:
		return fmt.Sprintf("belongs to %s %s (UID %s)", owner.Kind, owner.Name, owner.UID)
	case o.GetLabels()[v1alpha1.LabelCluster] == c.Name && o.GetLabels()[LabelManagedBy] == ManagedBy:
		return "" // kept from an earlier cluster of this name, with its volumes
	}
	return fmt.Sprintf("exists and was not made by Warren for this cluster, since it has not the labels %s=%s and %s=%s",
		v1alpha1.LabelCluster, c.Name, LabelManagedBy, ManagedBy)
}

// Intent is the object as it is to be applied.
func Intent(o Object) (map[string]any, error) { return intentOf(o) }

// intentOf is the object as plain data, with a hash of itself, without status and other fields that only a server sets.
func intentOf(o Object) (map[string]any, error) {
	intent, err := plain(o)
	if err != nil {
		return nil, err
	}
	sum, err := shapeHash(o, intent)
	if err != nil {
		return nil, err
	}
	metadata := intent["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[v1alpha1.AnnotationApplied] = hex.EncodeToString(sum[:12])
	return intent, nil
}

// shapeHash is the hash of an intent. Of a Secret it covers the keys and not the values, which are compared anyway:
// annotations are shown in places where Secrets are not, and a password that a person chose can be guessed from its hash.
func shapeHash(o Object, intent map[string]any) (sum [sha256.Size]byte, err error) {
	hashed := intent
	if secret, ok := o.(*corev1.Secret); ok {
		bare := secret.DeepCopy()
		for key := range bare.Data {
			bare.Data[key] = []byte{}
		}
		if hashed, err = plain(bare); err != nil {
			return sum, err
		}
	}
	text, err := json.Marshal(hashed)
	if err != nil {
		return sum, err
	}
	return sha256.Sum256(text), nil
}

func plain(o Object) (map[string]any, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return withoutServerFields(out), nil
}

func withoutServerFields(m map[string]any) map[string]any {
	delete(m, "status")
	if metadata, ok := m["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	spec, _ := m["spec"].(map[string]any)
	claims, _ := spec["volumeClaimTemplates"].([]any)
	for _, claim := range claims {
		withoutServerFields(claim.(map[string]any))
	}
	return m
}

// satisfied tells whether what is there has all of the intent, its hash included.
func satisfied(intent map[string]any, there Object) (bool, error) {
	have, err := plain(there)
	if err != nil {
		return false, err
	}
	// A typed object read from a cache does not carry its kind.
	have["apiVersion"], have["kind"] = intent["apiVersion"], intent["kind"]
	return contains(have, intent), nil
}

// contains tells whether have holds everything that want says. Lists of named items may hold further items.
func contains(have, want any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false // also when w is empty: "emptyDir: {}" says something
		}
		for key, value := range w {
			if !contains(h[key], value) {
				return false
			}
		}
		return true
	case []any:
		h, _ := have.([]any)
		return containsList(h, w)
	}
	return have == want
}

func containsList(have, want []any) bool {
	if len(want) > 0 && itemName(want[0]) != "" {
		for _, w := range want {
			if !slices.ContainsFunc(have, func(h any) bool { return itemName(h) == itemName(w) && contains(h, w) }) {
				return false
			}
		}
		return true
	}
	return slices.EqualFunc(have, want, contains)
}

func itemName(item any) string {
	m, _ := item.(map[string]any)
	name, _ := m["name"].(string)
	return name
}
