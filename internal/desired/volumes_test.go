package desired

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/tuning"
)

// server plays as much of Kubernetes as a growth touches. left is how many more writes Warren gets through before it is
// killed; a write after that does not happen.
type server struct {
	t       *testing.T
	cluster *v1alpha1.WorkloadCluster
	live    map[Key]Object
	claims  []corev1.PersistentVolumeClaim
	left    int
	pods    string // the hash of the template that the pods were made from
	deleted int
}

func newServer(t *testing.T, c *v1alpha1.WorkloadCluster) *server {
	s := &server{t: t, cluster: c, live: map[Key]Object{}, left: 1000}
	s.pass()
	set := s.set()
	s.pods = set.Spec.Template.Annotations[annotationConfig]
	for i := range c.Spec.Replicas {
		claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
		claim.Name = ClaimName(c.Name, i)
		claim.Status.Phase = corev1.ClaimBound
		s.claims = append(s.claims, *claim)
	}
	s.grown()
	return s
}

func (s *server) set() *appsv1.StatefulSet {
	set, _ := s.live[Key{Kind: "StatefulSet", Name: s.cluster.Name}].(*appsv1.StatefulSet)
	return set
}

// grown: the storage has done all that was asked.
func (s *server) grown() {
	for i := range s.claims {
		s.claims[i].Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: requested(&s.claims[i])}
	}
}

func (s *server) write() bool {
	s.left--
	return s.left >= 0
}

// pass is one pass of Warren, which says whether it had nothing to do.
func (s *server) pass() (idle bool) {
	s.t.Helper()
	volumes := PlanVolumes(s.cluster, s.set(), s.claims, s.live)
	if len(volumes.Faults) > 0 {
		s.t.Fatal(volumes.Faults)
	}
	in := input(s.t, s.cluster)
	in.Tuning, in.Claims, in.SizeAsMade = tuning.Decide(volumes.Spec), &volumes.Growth.Template, &volumes.Spec.Storage.Size
	wanted := Build(in)
	plan, err := PlanObjects(s.cluster, wanted, s.live, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	byKey := map[Key]Object{}
	for _, object := range wanted {
		byKey[KeyOf(object)] = object
	}
	for _, intent := range plan.Apply {
		if !s.write() {
			return false
		}
		key := Key{Kind: intent["kind"].(string), Name: intent["metadata"].(map[string]any)["name"].(string)}
		object := byKey[key]
		if set, ok := object.(*appsv1.StatefulSet); ok {
			s.apply(set)
		}
		object.SetAnnotations(annotationsOf(intent))
		s.live[key] = object
	}
	for _, edit := range volumes.Growth.Claims {
		if !s.write() {
			return false
		}
		s.grow(edit.After.(*corev1.PersistentVolumeClaim))
	}
	if volumes.Growth.Replace {
		if !s.write() {
			return false
		}
		s.remove()
	}
	return len(plan.Apply)+len(volumes.Growth.Claims) == 0 && !volumes.Growth.Replace && volumes.Growth.Waiting == ""
}

func annotationsOf(intent map[string]any) map[string]string {
	out := map[string]string{}
	for key, value := range intent["metadata"].(map[string]any)["annotations"].(map[string]any) {
		out[key] = value.(string)
	}
	return out
}

// apply refuses what the API server refuses, and a template that would restart pods.
func (s *server) apply(set *appsv1.StatefulSet) {
	s.t.Helper()
	if there := s.set(); there != nil {
		was, is := requested(&there.Spec.VolumeClaimTemplates[0]), requested(&set.Spec.VolumeClaimTemplates[0])
		if was.Cmp(is) != 0 {
			s.t.Fatalf("the claim template of a StatefulSet that exists was changed from %s to %s", &was, &is)
		}
	}
	if hash := set.Spec.Template.Annotations[annotationConfig]; s.pods != "" && hash != s.pods {
		s.t.Fatal("the pods would restart")
	}
}

func (s *server) grow(after *corev1.PersistentVolumeClaim) {
	s.t.Helper()
	for i := range s.claims {
		if s.claims[i].Name != after.Name {
			continue
		}
		if was, is := requested(&s.claims[i]), requested(after); was.Cmp(is) >= 0 {
			s.t.Fatalf("claim %s would go from %s to %s", after.Name, &was, &is)
		}
		s.claims[i].Spec = after.Spec
	}
}

func (s *server) remove() {
	s.t.Helper()
	for i := range s.claims {
		if size := requested(&s.claims[i]); size.Cmp(s.cluster.Spec.Storage.Size) < 0 {
			s.t.Fatalf("the StatefulSet is deleted while claim %s asks for %s only", s.claims[i].Name, &size)
		}
	}
	s.deleted++
	delete(s.live, Key{Kind: "StatefulSet", Name: s.cluster.Name})
}

// settle lets Warren run until it has nothing to do.
func (s *server) settle() {
	s.t.Helper()
	s.left = 1000
	for range 20 {
		if s.pass() {
			return
		}
		s.grown()
	}
	s.t.Fatal("does not come to rest")
}

func (s *server) check(size string, replaced int) {
	s.t.Helper()
	want := resource.MustParse(size)
	set := s.set()
	if set == nil {
		s.t.Fatal("no StatefulSet is left")
	}
	if got := requested(&set.Spec.VolumeClaimTemplates[0]); got.Cmp(want) != 0 {
		s.t.Errorf("the claim template says %s, want %s", &got, size)
	}
	for i := range s.claims {
		if got := requested(&s.claims[i]); got.Cmp(want) < 0 {
			s.t.Errorf("claim %s asks for %s, want %s", s.claims[i].Name, &got, size)
		}
	}
	if s.deleted != replaced {
		s.t.Errorf("the StatefulSet was replaced %d times, want %d", s.deleted, replaced)
	}
}

func sized(size string) func(*v1alpha1.WorkloadCluster) {
	return func(c *v1alpha1.WorkloadCluster) {
		c.UID, c.Spec.Storage.Size = "uid", resource.MustParse(size)
	}
}

// B2: Warren may be killed after any of its writes, and what runs next ends with a StatefulSet and larger volumes; no pod
// restarts.
func TestVolumesGrowWhereverWarrenIsKilled(t *testing.T) {
	for writes := range 9 {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			s := newServer(t, read(t, "minimal", sized("10Gi")))
			s.cluster.Spec.Storage.Size = resource.MustParse("20Gi")
			s.left = writes
			for range 8 {
				s.pass()
			}
			s.settle()
			s.check("20Gi", 1)
			s.cluster.Spec.Storage.Size = resource.MustParse("40Gi")
			s.settle()
			s.check("40Gi", 2)
		})
	}
}

func TestOtherChangesGoOnWhileVolumesGrow(t *testing.T) {
	s := newServer(t, read(t, "minimal", sized("10Gi")))
	s.claims[1].Status.Phase = corev1.ClaimPending
	s.cluster.Spec.Storage.Size = resource.MustParse("20Gi")
	s.pass()
	s.cluster.Spec.Resources.Limits.CPU = resource.MustParse("7")
	s.pods = "" // this one restarts pods
	s.pass()
	if s.deleted > 0 {
		t.Fatal("the StatefulSet was deleted while a claim had no volume")
	}
	if got := s.set().Spec.Template.Spec.Containers[0].Resources.Limits.Cpu().String(); got != "7" {
		t.Errorf("the limit is %s: it waits for the volumes", got)
	}
}

func TestPlanGrowth(t *testing.T) {
	claim := func(ordinal int, edits ...func(*corev1.PersistentVolumeClaim)) corev1.PersistentVolumeClaim {
		size, class := resource.MustParse("10Gi"), "standard"
		c := corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-runtime-%d", ordinal)},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class,
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: size}},
		}
		for _, edit := range edits {
			edit(&c)
		}
		return c
	}
	asks := func(size string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
		}
	}
	cannot := func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
	}
	for name, c := range map[string]struct {
		size, class string
		claims      []corev1.PersistentVolumeClaim
		set         string // the size of its template; "" means none
		recorded    bool
		grow        int
		replace     bool
		waiting     string
		fault       string
	}{
		"nothing to do":                        {size: "10Gi", claims: []corev1.PersistentVolumeClaim{claim(0)}, set: "10Gi"},
		"grow":                                 {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0), claim(1)}, set: "10Gi", grow: 2},
		"only those that are smaller":          {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("20Gi")), claim(1)}, set: "10Gi", grow: 1},
		"larger by hand":                       {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("30Gi"))}, set: "20Gi"},
		"a second growth waits":                {size: "30Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("20Gi"))}, set: "20Gi", waiting: "still growing to 20Gi"},
		"not for one that cannot be":           {size: "30Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("20Gi"), cannot)}, set: "20Gi", grow: 1},
		"no volume yet":                        {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0, func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })}, set: "10Gi", waiting: "no volume yet"},
		"replaced when all ask":                {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("20Gi"))}, set: "10Gi", recorded: true, replace: true},
		"not before the old size is recorded":  {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("20Gi"))}, set: "10Gi", waiting: "ConfigMap"},
		"the StatefulSet is gone":              {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0, asks("20Gi"))}, recorded: true},
		"kept volumes are smaller":             {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(0)}, grow: 1},
		"of nodes that are no more":            {size: "20Gi", claims: []corev1.PersistentVolumeClaim{claim(5)}, set: "20Gi"},
		"a shrink that no schema saw":          {size: "5Gi", claims: []corev1.PersistentVolumeClaim{claim(0)}, set: "10Gi", fault: "only grow"},
		"the class that the volumes have":      {size: "10Gi", class: "standard", claims: []corev1.PersistentVolumeClaim{claim(0)}, set: "10Gi"},
		"another class than the volumes have":  {size: "10Gi", class: "fast", claims: []corev1.PersistentVolumeClaim{claim(0)}, set: "10Gi", fault: `has the class "standard"`},
		"another class than kept volumes have": {size: "10Gi", class: "fast", claims: []corev1.PersistentVolumeClaim{claim(0)}, fault: `has the class "standard"`},
	} {
		t.Run(name, func(t *testing.T) {
			object := read(t, "minimal", sized(c.size))
			object.Name, object.Spec.Storage.ClassName = "runtime", c.class
			var set *appsv1.StatefulSet
			if c.set != "" {
				set = statefulSet(input(t, object))
				set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(c.set)
			}
			got := PlanGrowth(object, set, c.claims, c.recorded)
			if len(got.Claims) != c.grow || got.Replace != c.replace || !strings.Contains(got.Waiting, c.waiting) || (got.Waiting == "") != (c.waiting == "") ||
				!strings.Contains(got.Fault, c.fault) || (got.Fault == "") != (c.fault == "") {
				t.Errorf("got %d claims, replace %v, waiting %q, fault %q", len(got.Claims), got.Replace, got.Waiting, got.Fault)
			}
			if c.set != "" && got.Template.Size.Cmp(resource.MustParse(c.set)) != 0 {
				t.Errorf("the template would be %s, which nobody can change from %s", &got.Template.Size, c.set)
			}
		})
	}
}
