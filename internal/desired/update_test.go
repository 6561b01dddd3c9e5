package desired

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Only what no person asked for waits: a template that another build of Warren makes of the same spec.
func TestPlanUpdate(t *testing.T) {
	saturday := time.Date(2026, 12, 5, 12, 0, 0, 0, time.UTC)
	sunday := time.Date(2026, 12, 6, 3, 30, 0, 0, time.UTC)
	window := &v1alpha1.MaintenanceWindow{Cron: "0 3 * * SUN", Duration: metav1.Duration{Duration: 2 * time.Hour}}
	made := func(build string, c *v1alpha1.WorkloadCluster, edits ...func(*Input)) *appsv1.StatefulSet {
		in := input(t, c)
		in.Build = build
		for _, edit := range edits {
			edit(&in)
		}
		return statefulSet(in)
	}
	another := func(in *Input) { in.Tuning.BindFlag = "db" } // stands for whatever another Warren renders in another way
	for _, c := range []struct {
		name    string
		now     time.Time
		live    func(c *v1alpha1.WorkloadCluster) *appsv1.StatefulSet
		edit    func(c *v1alpha1.WorkloadCluster)
		build   string
		pending bool
		window  string
	}{
		{name: "another build, another template", build: "two", pending: true},
		{name: "another build, the same template", build: "two", live: func(c *v1alpha1.WorkloadCluster) *appsv1.StatefulSet { return made("one", c, another) }},
		{name: "the same build: a Secret or the like has changed", build: "one"},
		{name: "the spec was edited too", build: "two", edit: func(c *v1alpha1.WorkloadCluster) {
			c.Generation, c.Spec.Resources.Limits.CPU = 2, resource.MustParse("4")
		}},
		{name: "a new default is no edit", build: "two", pending: true, edit: func(c *v1alpha1.WorkloadCluster) { c.Spec.Scheduling.PriorityClassName = "defaulted" }},
		{name: "what no pod knows of is no edit", build: "two", pending: true, window: "0 3 * * SUN (UTC) for 2h0m0s", edit: func(c *v1alpha1.WorkloadCluster) {
			c.Generation, c.Spec.Update.Window, c.Spec.PolicyNamespaces = 2, window, []string{"apps"}
		}},
		{name: "in the window", build: "two", now: sunday, edit: func(c *v1alpha1.WorkloadCluster) { c.Spec.Update.Window = window }},
		{name: "nothing waits", build: "two", edit: func(c *v1alpha1.WorkloadCluster) { c.Spec.Update.Approval = v1alpha1.ApproveNever }},
		{name: "no StatefulSet yet", build: "two", live: func(*v1alpha1.WorkloadCluster) *appsv1.StatefulSet { return nil }},
		{name: "one that says nothing of its making", build: "two", live: func(c *v1alpha1.WorkloadCluster) *appsv1.StatefulSet {
			set := made("one", c)
			set.Annotations = nil
			return set
		}},
		{name: "somebody else's", build: "two", live: func(c *v1alpha1.WorkloadCluster) *appsv1.StatefulSet {
			set := made("one", c)
			set.OwnerReferences[0].UID = "another"
			return set
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := read(t, "minimal", func(c *v1alpha1.WorkloadCluster) { c.UID, c.Generation = "one", 1 })
			live := made("one", object)
			if c.live != nil {
				live = c.live(object)
			}
			if c.edit != nil {
				c.edit(object)
			}
			now := saturday
			if !c.now.IsZero() {
				now = c.now
			}
			wanted := []Object{made(c.build, object, another)}
			got := PlanUpdate(object, wanted, live, now)
			if (got.Pending != "") != c.pending || got.Window != c.window {
				t.Fatalf("got %+v", got)
			}
			if held := got.Holds(object); (len(held) == 2) != c.pending {
				t.Errorf("holds %v", held)
			}
			if !c.pending {
				return
			}
			object.Annotations = map[string]string{v1alpha1.AnnotationApproveUpdate: "an earlier one"}
			if PlanUpdate(object, wanted, live, now).Pending == "" {
				t.Error("the approval of an earlier update counts")
			}
			object.Annotations[v1alpha1.AnnotationApproveUpdate] = got.Pending
			if PlanUpdate(object, wanted, live, now).Pending != "" {
				t.Error("it waits although it is approved")
			}
		})
	}
}

// What is held is neither applied nor deleted.
func TestHeldObjectsStay(t *testing.T) {
	c := read(t, "minimal")
	wanted := Build(input(t, c))
	live := map[Key]Object{}
	for _, object := range wanted {
		live[KeyOf(object)] = object // without the hash of an apply
	}
	held := Update{Pending: "x"}.Holds(c)
	p, err := PlanObjects(c, wanted, live, held)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Delete) > 0 || len(p.Apply) != len(wanted)-len(held) {
		t.Errorf("%d of %d are applied, deleted %v", len(p.Apply), len(wanted), deleted(p))
	}
	if p, err = PlanObjects(c, wanted, map[Key]Object{}, held); err != nil || len(p.Apply) != len(wanted) {
		t.Errorf("what is missing is made: %d of %d, %v", len(p.Apply), len(wanted), err)
	}
}
