package broker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// testGuests: a tenant's vhost and user carry a tag by which they are told from those that only have such a name.
func testGuests(t *testing.T, s *subject) {
	ctx, client := context.Background(), s.client(t)
	guest, ok := client.(broker.Guest)
	if !ok {
		t.Fatal("the client is not a guest")
	}
	name := s.vhost(t, client, "-guest")
	find := func() (vhost broker.VHost) {
		t.Helper()
		vhosts, err := guest.DescribedVHosts(ctx)
		must(t, err)
		for _, v := range vhosts {
			if v.Name == name {
				return v
			}
		}
		t.Fatalf("vhost %q is not listed", name)
		return vhost
	}
	user := func() *broker.User {
		t.Helper()
		users, err := guest.Users(ctx)
		must(t, err)
		at := slices.IndexFunc(users, func(u broker.User) bool { return u.Name == name })
		if at < 0 {
			return nil
		}
		return &users[at]
	}
	t.Run("a-vhost-has-what-it-was-given", func(t *testing.T) {
		if v := find(); v.Description != "" || len(v.Tags) > 0 {
			t.Errorf("a new vhost has %+v", v)
		}
		for _, description := range []string{"at 1", "at 2"} {
			must(t, guest.PutDescribedVHost(ctx, broker.VHost{Name: name, Description: description, Tags: []string{"one", "two"}}))
			if v := find(); v.Description != description || !slices.Equal(v.Tags, []string{"one", "two"}) {
				t.Errorf("got %+v", v)
			}
		}
	})
	t.Run("H1-a-user-comes-and-goes", func(t *testing.T) {
		must(t, guest.PutUser(ctx, broker.User{Name: name, Password: "a secret", Tags: []string{"one"}}))
		if u := user(); u == nil || !slices.Equal(u.Tags, []string{"one"}) || u.Password != "" {
			t.Errorf("got %+v", u)
		}
		must(t, guest.DeleteUser(ctx, name))
		if user() != nil {
			t.Error("the user is still there")
		}
		if err := guest.DeleteUser(ctx, name); !broker.IsNotFound(err) {
			t.Errorf("a second deletion: %v", err)
		}
	})
}
