package warren

import (
	"testing"

	"github.com/warren-mq/warren/client/clienttest"
)

// TestAnAlarmEndsWithItsConnection has a connection end while the broker blocks it: who counts blocked connections by Blocked
// and Unblocked must not count it for ever.
func TestAnAlarmEndsWithItsConnection(t *testing.T) {
	b := clienttest.Start(t)
	declare(t, b, "worker.a")
	events := make(chan string, 16)
	note := func(what string) func(ConnectionEvent) { return func(ConnectionEvent) { events <- what } }
	next := func(want string) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("%s was called, want %s", got, want)
			}
		case <-soon(t).Done():
			t.Fatalf("%s was not called", want)
		}
	}
	r := newRouter(t, b, WithHooks(Hooks{
		Connected: note("Connected"), Disconnected: note("Disconnected"), Blocked: note("Blocked"), Unblocked: note("Unblocked"),
	}))
	p := newPublisher(t, r)
	if err := p.Publish(soon(t), to("worker.a", "x")); err != nil {
		t.Fatal(err)
	}
	next("Connected")
	b.Block("memory")
	async(t, p, to("worker.a", "y"))
	next("Blocked")
	b.RefuseConnections(true)
	b.DropConnections()
	next("Unblocked")
	next("Disconnected")
	b.Unblock()
	b.RefuseConnections(false)
	if err := p.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
}
