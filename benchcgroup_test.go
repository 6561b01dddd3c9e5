package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/load"
)

// Without the right the figures are unknown and the reason is told, each time that they are asked for; the right that is
// asked for is the one that the Role of a run gives: create on pods/exec, by the pod's name.
func TestControlGroupsThatMayNotBeRead(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("container"))
		mu.Unlock()
		if !slices.Equal(r.URL.Query()["command"], []string{"sh", "-c", load.CgroupScript}) {
			t.Errorf("the command is %q", r.URL.Query()["command"])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"may not","reason":"Forbidden","code":403}`))
	}))
	defer server.Close()
	c := &podCgroups{ctx: t.Context(), config: &rest.Config{Host: server.URL}, shells: map[string]*shell{}, at: job.Plan{
		Namespace: "messaging", Brokers: []job.BrokerPod{{Pod: "runtime-0", Container: "rabbitmq"}, {Pod: "runtime-1", Container: "rabbitmq"}},
	}}
	for range 2 {
		for _, b := range c.at.Brokers {
			<-c.shell(b).ready
		}
		samples, err := c.Sample(t.Context())
		if len(samples) > 0 || err == nil || !strings.Contains(err.Error(), "runtime-1: ") || !strings.Contains(err.Error(), "may not") {
			t.Errorf("samples %v, error %v", samples, err)
		}
	}
	slices.Sort(asked)
	want := "POST /api/v1/namespaces/messaging/pods/runtime-%/exec rabbitmq"
	if len(asked) != 4 || asked[0] != strings.Replace(want, "%", "0", 1) || asked[3] != strings.Replace(want, "%", "1", 1) {
		t.Errorf("asked %q", asked)
	}
	if got, err := brokerCgroups(t.Context(), job.Plan{}); got != nil || err != nil {
		t.Errorf("of a run that samples none: %v, %v", got, err)
	}
}
