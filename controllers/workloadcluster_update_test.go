//go:build api

package controllers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker/brokertest"
)

// What only another version of Warren changes in the pods waits, the cluster stays Ready, and an approval lets it go on.
func TestAnUpgradeOfWarrenWaitsForApproval(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	set := &appsv1.StatefulSet{}
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // as an earlier Warren would have left it
		must(t, get(t, c.Namespace, c.Name, set))
		parts := strings.Split(set.Annotations[v1alpha1.AnnotationRendering], "/")
		if len(parts) != 4 {
			t.Fatalf("rendering is %q", parts)
		}
		parts[0], parts[3] = "earlier", "another"
		set.Annotations[v1alpha1.AnnotationRendering] = strings.Join(parts, "/")
		set.Annotations[v1alpha1.AnnotationApplied] = "earlier"
		set.Spec.Template.Annotations["made-by"] = "earlier"
		return kube.Update(t.Context(), set)
	}))
	held := set.Generation
	set.Status.ObservedGeneration = held // as the StatefulSet's controller does
	must(t, kube.Status().Update(t.Context(), set))
	eventually(t, "the update waits", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonWaitingForApproval)
	})
	must(t, get(t, c.Namespace, c.Name, set))
	if set.Generation != held || set.Annotations[v1alpha1.AnnotationApplied] != "earlier" {
		t.Errorf("the StatefulSet was changed: generation %d, was %d", set.Generation, held)
	}
	eventually(t, "the cluster is ready meanwhile", func() error { return ready(t, c) })
	var command string
	for _, condition := range c.Status.Conditions {
		if condition.Type == v1alpha1.ConditionUpdatePending {
			command = condition.Message
		}
	}
	_, hash, found := strings.Cut(command, v1alpha1.AnnotationApproveUpdate+"=")
	if !found {
		t.Fatalf("the message does not say how to approve: %q", command)
	}
	edit(t, c, func() {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[v1alpha1.AnnotationApproveUpdate] = hash
	})
	eventually(t, "the StatefulSet is as this Warren makes it", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if !strings.HasPrefix(set.Annotations[v1alpha1.AnnotationRendering], "suite/") || set.Annotations[v1alpha1.AnnotationApplied] == "earlier" {
			return fmt.Errorf("annotations %v", set.Annotations)
		}
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionUpdatePending, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	})
}

// A changed spec is carried out at once, with what waited: one rollout.
func TestAnEditCarriesOutWhatWaits(t *testing.T) {
	c := newCluster(newNamespace(t), "runtime", "4.3")
	startCluster(t, c, brokertest.V4)
	set := &appsv1.StatefulSet{}
	must(t, get(t, c.Namespace, c.Name, set))
	before := set.DeepCopy()
	parts := strings.Split(set.Annotations[v1alpha1.AnnotationRendering], "/")
	parts[0], parts[3] = "earlier", "another"
	set.Annotations[v1alpha1.AnnotationRendering], set.Annotations[v1alpha1.AnnotationApplied] = strings.Join(parts, "/"), "earlier"
	must(t, kube.Update(t.Context(), set))
	generation := set.Generation
	eventually(t, "the update waits", func() error {
		must(t, get(t, c.Namespace, c.Name, c))
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonWaitingForApproval)
	})
	edit(t, c, func() { c.Spec.Scheduling.PriorityClassName = "system-cluster-critical" })
	eventually(t, "the template is as the spec says", func() error {
		must(t, get(t, c.Namespace, c.Name, set))
		if set.Spec.Template.Spec.PriorityClassName != "system-cluster-critical" || set.Annotations[v1alpha1.AnnotationApplied] == "earlier" {
			return errors.New("not yet")
		}
		return nil
	})
	if set.Generation != generation+1 {
		t.Errorf("the StatefulSet changed %d times, from %v", set.Generation-generation, before.Annotations)
	}
}
