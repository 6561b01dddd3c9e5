package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/desired"
)

// Missing is what of the wanted objects is not there yet. Those that are there are not touched: pods write into them. One
// that belongs to somebody else is in Taken, and then nothing is applied.
func Missing(b *v1alpha1.Benchmark, wanted []desired.Object, live map[desired.Key]desired.Object) (desired.Plan, error) {
	var out desired.Plan
	for _, object := range wanted {
		key := desired.KeyOf(object)
		there, found := live[key]
		if found && !metav1.IsControlledBy(there, b) {
			out.Taken = append(out.Taken, fmt.Sprintf("%s %s exists and does not belong to this Benchmark", key.Kind, key.Name))
		}
		if found {
			continue
		}
		intent, err := desired.Intent(object)
		if err != nil {
			return desired.Plan{}, fmt.Errorf("%s %s: %w", key.Kind, key.Name, err)
		}
		out.Apply = append(out.Apply, intent)
	}
	if len(out.Taken) > 0 {
		return desired.Plan{Taken: out.Taken}, nil
	}
	return out, nil
}

// Obsolete are the objects of runs that have ended, but for the results of the runs that are kept. activeID is "" when no
// run is under way. Objects of runs that the status does not know yet are not: what a pass read may be older than they are.
func Obsolete(b *v1alpha1.Benchmark, live map[desired.Key]desired.Object, activeID string, kept []v1alpha1.RunRecord) []desired.Object {
	var out []desired.Object
	for _, object := range live {
		id := object.GetLabels()[v1alpha1.LabelRun]
		_, isResult := object.GetLabels()[v1alpha1.LabelResult]
		_, isReport := object.GetLabels()[v1alpha1.LabelReport]
		keep := id == activeID
		if isResult || isReport {
			keep = keep || slices.ContainsFunc(kept, func(r v1alpha1.RunRecord) bool { return r.ID == id })
		}
		known := NumberOf(object) <= b.Status.Started
		if id != "" && !keep && known && metav1.IsControlledBy(object, b) && object.GetDeletionTimestamp().IsZero() {
			out = append(out, object)
		}
	}
	slices.SortFunc(out, func(a, b desired.Object) int {
		x, y := desired.KeyOf(a), desired.KeyOf(b)
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name))
	})
	return out
}
