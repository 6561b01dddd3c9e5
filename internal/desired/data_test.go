package desired

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// The deletion policy may have changed a moment before the deletion: what the objects still say is not what is done.
func TestDataIsSettledByTheSpecOfTheMoment(t *testing.T) {
	in := input(t, read(t, "minimal"))
	for _, was := range []v1alpha1.DeletionPolicy{v1alpha1.RetainOnDelete, v1alpha1.DeleteOnDelete} {
		for _, is := range []v1alpha1.DeletionPolicy{v1alpha1.RetainOnDelete, v1alpha1.DeleteOnDelete} {
			t.Run(string(was)+" to "+string(is), func(t *testing.T) {
				in.Cluster.Spec.Storage.DeletionPolicy = was
				live := stored(t, Build(in))
				set := live[Key{"StatefulSet", StatefulSetName(in.Cluster.Name)}].(*appsv1.StatefulSet)
				cookie := live[Key{"Secret", CookieSecretName(in.Cluster.Name)}].(*corev1.Secret)
				in.Cluster.Spec.Storage.DeletionPolicy = is
				edits := SettleData(in.Cluster, set, cookie, nil)
				if was == is {
					if len(edits) > 0 {
						t.Errorf("%d changes for nothing", len(edits))
					}
					return
				}
				if len(edits) != 2 {
					t.Fatalf("%d changes, want 2", len(edits))
				}
				if got := retention(edits[0].After.(*appsv1.StatefulSet)); got != whenDeleted(in.Cluster) {
					t.Errorf("volumes: %s", got)
				}
				if got := metav1.IsControlledBy(edits[1].After, in.Cluster); got != (is == v1alpha1.DeleteOnDelete) {
					t.Errorf("the Secret is owned: %t", got)
				}
			})
		}
	}
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: CookieSecretName(in.Cluster.Name)}}
	if edits := SettleData(in.Cluster, nil, theirs); len(edits) > 0 {
		t.Error("another's Secret is touched")
	}
}

// A pod that is told late, long after the deletion, has as much time to learn of it as any other.
func TestStopDelay(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	pod := func(since string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationStopNowSince: since}}}
	}
	at := func(ago time.Duration) corev1.Pod { return pod(now.Add(-ago).Format(time.RFC3339Nano)) }
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want time.Duration
	}{
		"no pods":              {nil, 0},
		"told long ago":        {[]corev1.Pod{at(time.Minute)}, 0},
		"the last one counts":  {[]corev1.Pod{at(time.Minute), at(time.Second), at(2 * time.Second)}, 3 * time.Second},
		"by a clock ahead":     {[]corev1.Pod{at(-time.Second)}, 3 * time.Second},
		"by a clock far ahead": {[]corev1.Pod{at(-time.Hour)}, 0},
		"by somebody else":     {[]corev1.Pod{pod("")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := StopDelay(test.pods, now, 4*time.Second); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
