package management

import (
	"net"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/broker"
)

// Bodies marked "recorded" were read from RabbitMQ 3.10.8 and 4.3.6.
func TestStatusAndBodyToKind(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   broker.ErrorKind
		reason string
	}{
		{"recorded: absent object", 404, `{"error":"Object Not Found","reason":"Not Found"}`, broker.NotFound, "Not Found"},
		{"recorded: absent vhost on PUT", 404, `{"error":"not_found","reason":"vhost_not_found"}`, broker.NotFound, "vhost_not_found"},
		{"recorded: no permission, 4.3.6", 404, `{"error":"not_found","reason":"Not Found"}`, broker.Unauthorized, "may not access"},
		{"recorded: no permission, 3.10.8", 401, `{"error":"not_authorised","reason":"User not authorised to access virtual host"}`, broker.Unauthorized, "User not authorised"},
		{"recorded: no credentials", 401, ``, broker.Unauthorized, "refused the credentials"},
		{"forbidden", 403, `<html>`, broker.Unauthorized, "refused the credentials"},
		{"recorded: bad value, 3.10.8", 400, `{"error":"bad_request","reason":"Validation failed\n\n&lt;&lt;\"1\"&gt;&gt; is not a valid maximum length\n"}`,
			broker.Invalid, `Validation failed: <<"1">> is not a valid maximum length`},
		{"recorded: bad value, 4.3.6", 400, `{"error":"bad_request","reason":"Validation failed\n\n<<\"1\">> is not a valid maximum length\n"}`,
			broker.Invalid, `Validation failed: <<"1">> is not a valid maximum length`},
		{"recorded: bad pattern, 4.3.6", 400, "{\"error\":\"bad_request\",\"reason\":\"Validation failed\\n\\npattern is invalid: {\\\"missing closing parenthesis\\\",\\n                10}\\n\"}",
			broker.Invalid, `Validation failed: pattern is invalid: {"missing closing parenthesis", 10}`},
		{"editing forbidden by the broker's settings", 405, `{"error":"method_not_allowed","reason":"Broker settings disallow editing of operator policies."}`, broker.Invalid, "disallow editing"},
		{"recorded: 405 of a wrong path", 405, ``, broker.Unavailable, "path escaping broken by a proxy?"},
		{"a proxy's 404", 404, `<html>404 Not Found</html>`, broker.Unavailable, "path escaping broken by a proxy?"},
		{"a proxy's 404 in JSON", 404, `{"message":"no route"}`, broker.Unavailable, "path escaping broken by a proxy?"},
		{"recorded: 400 of a wrong path", 400, ``, broker.Unavailable, "status 400 without the broker's own answer"},
		{"redirect", 301, ``, broker.Unavailable, "redirects are not followed"},
		{"recorded: crash", 500, ``, broker.Unavailable, "status 500"},
		{"time-out of the metadata store", 503, `{"error":"service_unavailable","reason":"timeout"}`, broker.Unavailable, "status 503: timeout"},
		{"gateway time-out", 504, `<html>`, broker.Unavailable, "status 504"},
		{"reason that is no text", 400, `{"error":"bad_request","reason":{"a":1}}`, broker.Invalid, "bad_request"},
		{"endless reason", 400, `{"error":"bad_request","reason":"` + strings.Repeat("x", 5000) + `"}`, broker.Invalid, "x…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := failure("op", answer{status: c.status, body: []byte(c.body)})
			if broker.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %q of kind %q, want %q of kind %q", err, broker.KindOf(err), c.reason, c.kind)
			}
			if len(err.Error()) > 1100 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// An error's text goes into conditions: it may not differ from one poll to the next.
func TestNetworkErrorsReadTheSameEachTime(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			// A reset instead of a clean end: the client's error then names both ends.
			_ = connection.(*net.TCPConn).SetLinger(0)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	texts := map[string]bool{}
	for range 5 {
		api, err := NewConnector(Options{}).Connect(broker.Target{Key: "reset", URL: "http://" + listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.Overview(t.Context())
		if broker.KindOf(err) != broker.Unavailable {
			t.Fatalf("got %v", err)
		}
		texts[err.Error()] = true
	}
	for text := range texts {
		if strings.Contains(text, "->") {
			t.Errorf("%q names the port of this side", text)
		}
	}
}
