package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestErrorKinds(t *testing.T) {
	err := fmt.Errorf("reconcile: %w", &Error{Kind: NotFound, Op: `delete policy "a"`, Reason: "Not Found", Err: context.Canceled})
	if KindOf(err) != NotFound || !IsNotFound(err) || IsInvalid(err) {
		t.Errorf("%v has kind %q", err, KindOf(err))
	}
	if !errors.Is(err, context.Canceled) {
		t.Error("the cause is hidden")
	}
	if KindOf(errors.New("x")) != "" || KindOf(nil) != "" {
		t.Error("other errors have a kind")
	}
	if got := err.Error(); got != `reconcile: delete policy "a": Not Found` {
		t.Errorf("got %q", got)
	}
}
