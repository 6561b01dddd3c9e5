package warren

import (
	"context"
	"errors"
	"testing"
)

// A handler is tested without a broker.
func TestAHandlerIsTestedByItself(t *testing.T) {
	bad := errors.New("bad")
	handle := func(_ context.Context, b *Batch) error {
		for _, m := range b.Messages() {
			switch string(m.Body) {
			case "bad":
				m.DeadLetter(bad)
			case "later":
				m.DeadLetter(bad)
				m.Retry(nil)
			case "not mine":
				m.GiveBack()
			}
		}
		return nil
	}
	b := NewBatch("worker.a", "worker", to("worker.a", "good"), to("worker.a", "bad"), to("worker.a", "later"), to("worker.a", "not mine"))
	if err := handle(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "DeadLetter", "Retry", "GiveBack"} {
		got, reason := b.Messages()[i].Verdict()
		if got != want || (want == "DeadLetter") != errors.Is(reason, bad) {
			t.Errorf("message %d: %q, %v", i, got, reason)
		}
	}
}
