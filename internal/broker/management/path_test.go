package management

import (
	"net/url"
	"testing"
)

func TestEverySegmentIsEscapedOnce(t *testing.T) {
	base, err := url.Parse("http://broker:15672")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ vhost, name, want string }{
		{"/", "a", "/api/policies/%2F/a"},
		{"team/a", "a b", "/api/policies/team%2Fa/a%20b"},
		{"/logs", "a%2Fb", "/api/policies/%2Flogs/a%252Fb"},
		{"ünï", "日本", "/api/policies/%C3%BCn%C3%AF/%E6%97%A5%E6%9C%AC"},
		{"v", "q?x=1#y", "/api/policies/v/q%3Fx=1%23y"},
		{"v", "a+b", "/api/policies/v/a+b"},
		{"v", "tail\n", "/api/policies/v/tail%0A"},
		{"v", "...", "/api/policies/v/..."},
		{"v", "../x", "/api/policies/v/..%2Fx"},
	} {
		got := at("policies").named(c.vhost, c.name).onto(base, url.Values{"page": {"1"}})
		if got.EscapedPath() != c.want || got.RequestURI() != c.want+"?page=1" {
			t.Errorf("%q %q: got %s, want %s", c.vhost, c.name, got.RequestURI(), c.want)
		}
	}
}

func TestNamedDoesNotShareSegments(t *testing.T) {
	base := at("queues").named("v")
	first, second := base.named("a"), base.named("b")
	if first.words[2].text != "a" || second.words[2].text != "b" {
		t.Errorf("got %v and %v", first, second)
	}
}
