package notify_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/notify"
)

const token = "T0KEN-of-the-team"

func TestPost(t *testing.T) {
	var got map[string]string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/"+token || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s", r.Method, r.URL, r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	hook := notify.New()
	trust(hook, server)
	err := hook.Post(t.Context(), server.URL+"/"+token+"\n", "it got worse", map[string]string{"benchmark": "a/b"})
	if err != nil || got["text"] != "it got worse" || got["benchmark"] != "a/b" {
		t.Errorf("got %v, error %v", got, err)
	}
}

// trust makes the hook take the server's certificate, and changes nothing else.
func trust(hook notify.Webhook, server *httptest.Server) {
	hook.Client.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// The address is a secret: what goes into a status must not hold it, nor its host.
func TestFailuresDoNotHoldTheAddress(t *testing.T) {
	redirected := false
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected = true }))
	defer elsewhere.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("do") {
		case "redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "hang":
			time.Sleep(200 * time.Millisecond)
		case "cut":
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	trusting, strict := notify.New(), notify.New()
	trust(trusting, server)
	trusting.Client.Timeout = 100 * time.Millisecond
	for name, c := range map[string]struct {
		hook          notify.Webhook
		address, says string
	}{
		"refused":        {trusting, server.URL + "/" + token, "answered 403"},
		"redirect":       {trusting, server.URL + "/" + token + "?do=redirect", "answered 307"},
		"slow":           {trusting, server.URL + "/" + token + "?do=hang", "did not answer"},
		"cut":            {trusting, server.URL + "/" + token + "?do=cut", "broke the connection off"},
		"untrusted":      {strict, server.URL + "/" + token, "certificate"},
		"plain":          {strict, "http://hooks.invalid/" + token, "no https address"},
		"not an address": {strict, "https://%zz/" + token, "no https address"},
		"no such host":   {strict, "https://hooks.invalid/" + token, "cannot be resolved"},
		"closed port":    {strict, "https://127.0.0.1:1/" + token, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.hook.Post(t.Context(), c.address, "text", nil)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			for _, secret := range []string{token, "127.0.0.1", "hooks.invalid"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q holds %q", err, secret)
				}
			}
		})
	}
	if redirected {
		t.Error("a redirect was followed")
	}
}
