// Package status turns what one pass saw into the status of a Kind: one function for each condition and one summary.
// It is pure; the time is an argument.
package status

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// verdict is the value of one condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) verdict {
	return verdict{status: metav1.ConditionTrue, reason: reason, message: message}
}

func no(reason, message string) verdict {
	return verdict{status: metav1.ConditionFalse, reason: reason, message: message}
}

func unknown(reason, message string) verdict {
	return verdict{status: metav1.ConditionUnknown, reason: reason, message: message}
}

// Problem is why a pass could not do what the spec says, and what to do about it.
type Problem struct {
	// Reason for a condition, in CamelCase.
	Reason string
	// Message for a person.
	Message string
}

// setter writes conditions of one generation at one time.
type setter struct {
	conditions *[]metav1.Condition
	generation int64
	now        time.Time
}

// messageMost is how long a message may be, in bytes. The API server refuses the whole status for one above 32 KiB, and
// messages quote what users and brokers wrote.
const messageMost = 4096

// short is text of at most messageMost bytes.
func short(text string) string { return cut(text, messageMost) }

// cut is text of at most most bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

func (s setter) set(condition string, v verdict) {
	meta.SetStatusCondition(s.conditions, metav1.Condition{
		Type: condition, Status: v.status, Reason: v.reason, Message: short(v.message),
		ObservedGeneration: s.generation,
		LastTransitionTime: metav1.NewTime(s.now),
	})
}

func (s setter) drop(condition string) { meta.RemoveStatusCondition(s.conditions, condition) }

// summarize sets Ready from the named conditions: the first that is False speaks, else the first that is Unknown.
func (s setter) summarize(ready verdict, types ...string) {
	for _, wanted := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, t := range types {
			c := meta.FindStatusCondition(*s.conditions, t)
			if c != nil && c.Status == wanted {
				s.set(v1alpha1.ConditionReady, verdict{status: wanted, reason: c.Reason, message: c.Message})
				return
			}
		}
	}
	s.set(v1alpha1.ConditionReady, ready)
}

// IsTrue tells whether a condition is True for the generation that is current.
func IsTrue(conditions []metav1.Condition, condition string, generation int64) bool {
	c := meta.FindStatusCondition(conditions, condition)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}
