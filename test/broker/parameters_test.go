package broker_test

import (
	"context"
	"testing"
)

// testParameters: what one node is told, every node knows, and telling it again changes nothing.
func testParameters(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	const name = "warren-test"
	for _, value := range []string{"one", "one", "two"} {
		must(t, client.PutGlobalParameter(ctx, name, value))
		all, err := client.GlobalParameters(ctx)
		must(t, err)
		if all[name] != value {
			t.Errorf("%q is %v, want %q", name, all[name], value)
		}
	}
}
