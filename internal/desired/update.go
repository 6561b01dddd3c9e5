package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/schedule"
)

// Update is what is known of a change of the pods that nobody asked for but another version of Warren.
type Update struct {
	// Pending is what is to be approved; "" if nothing waits.
	Pending string
	// Window says that it will go on in the maintenance window, too.
	Window string
}

// rendering says of what a pod template was made. It stands in an annotation of the StatefulSet.
type rendering struct {
	// build of Warren; generation and spec of the WorkloadCluster; template that came of them.
	build, generation, spec, template string
}

func (r rendering) String() string {
	return strings.Join([]string{r.build, r.generation, r.spec, r.template}, "/")
}

func renderingOf(set *appsv1.StatefulSet) (r rendering, ok bool) {
	parts := strings.Split(set.Annotations[v1alpha1.AnnotationRendering], "/")
	if len(parts) != 4 {
		return rendering{}, false
	}
	return rendering{build: parts[0], generation: parts[1], spec: parts[2], template: parts[3]}, true
}

// remember annotates a StatefulSet with what its pod template was made of.
func remember(in Input, set *appsv1.StatefulSet) {
	if in.Build == "" {
		return
	}
	spec := in.Cluster.Spec
	spec.Update, spec.Paused, spec.PolicyNamespaces = v1alpha1.UpdateSpec{}, false, nil // no pod knows of them
	set.Annotations = map[string]string{v1alpha1.AnnotationRendering: rendering{
		build: in.Build, generation: fmt.Sprint(in.Cluster.Generation), spec: digest(spec), template: digest(set.Spec.Template),
	}.String()}
}

func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // Kubernetes' own types, which are made to be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// PlanUpdate tells whether the pods would restart for nothing but another version of Warren, and what that waits for. Whether
// a person changed the spec is told by its generation as well as its content: a new version fills in new defaults.
func PlanUpdate(c *v1alpha1.WorkloadCluster, wanted []Object, live *appsv1.StatefulSet, now time.Time) Update {
	update := c.Spec.Update
	if live == nil || taken(c, live) != "" || update.Approval == v1alpha1.ApproveNever {
		return Update{}
	}
	is, known := renderingIn(wanted)
	was, remembered := renderingOf(live)
	edited := was.generation != is.generation && was.spec != is.spec
	if !known || !remembered || was.build == is.build || was.template == is.template || edited {
		return Update{}
	}
	out := Update{Pending: is.template}
	if c.Annotations[v1alpha1.AnnotationApproveUpdate] == out.Pending {
		return Update{}
	}
	if w := update.Window; w != nil {
		times, err := schedule.Parse(w.Cron)
		if err == nil && schedule.Open(times, w.Duration.Duration, now) {
			return Update{}
		}
		out.Window = fmt.Sprintf("%s (UTC) for %s", w.Cron, w.Duration.Duration)
	}
	return out
}

// renderingIn is that of the StatefulSet among the objects.
func renderingIn(wanted []Object) (rendering, bool) {
	for _, object := range wanted {
		if set, ok := object.(*appsv1.StatefulSet); ok {
			return renderingOf(set)
		}
	}
	return rendering{}, false
}

// Holds are the objects that stay as they are while an update waits: the pods' template, and the files that a pod which restarts
// by itself would read.
func (u Update) Holds(c *v1alpha1.WorkloadCluster) map[Key]bool {
	if u.Pending == "" {
		return nil
	}
	return map[Key]bool{
		{Kind: "StatefulSet", Name: StatefulSetName(c.Name)}: true,
		{Kind: "ConfigMap", Name: ConfigMapName(c.Name)}:     true,
	}
}
