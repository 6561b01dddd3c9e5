package controllers

import (
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// controllerOptions bound how many objects are worked on at once, and how long one waits that failed: what was in the way
// may be gone long before the quarter of an hour that is the usual end of the back-off.
func (o Options) controllerOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: o.Concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](cacheDelay, max(o.PollInterval, unreadyInterval)),
	}
}

// jitter spreads passes over a fifth of the interval, so that objects that started together do not stay together.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// cacheDelay is how soon a pass that read an outdated object is repeated.
const cacheDelay = 200 * time.Millisecond

// afterWrite is the end of a pass whose last write went as err says. A write that lost against a newer version of the
// object is no error: the informer has that version in a moment, and the pass is repeated with it.
func afterWrite(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: jitter(cacheDelay)}, nil
	}
	return ctrl.Result{}, err
}

// announce says in an event that an object became ready, stopped being so, or is unready for another reason.
func announce(recorder events.EventRecorder, object client.Object, before, after []metav1.Condition) {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionReady), meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if was != nil && was.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(object, nil, kind, is.Reason, "Observe", "%s", note(is.Message))
}

// noteMost is how long an event's text may be; the API server refuses longer ones, and the event is lost.
const noteMost = 1024

// note is text, cut so that an event may carry it.
func note(text string) string {
	if len(text) <= noteMost {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:noteMost-len(more)], "") + more
}
