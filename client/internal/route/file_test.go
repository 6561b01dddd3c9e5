package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fromFile is the table of a routes file and some variables.
func fromFile(text string, environ ...string) (*Table, error) {
	f, err := decode([]byte(text))
	if err != nil {
		return nil, err
	}
	t, _, err := newTable(newEnvironment(environ), "/routes.json", f)
	if err != nil {
		return nil, located([]byte(text), err)
	}
	return t, nil
}

func mustFile(t testing.TB, text string, environ ...string) *Table {
	t.Helper()
	table, err := fromFile(text, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

const move = `{
  "version": 1,
  "revision": "7",
  "clusters": {
    "old-rabbit": {"hosts": ["old-rabbit.legacy.svc"], "vhost": "prod", "credentials": {"env": "RMQ_LEGACY"}},
    "worker": {"hosts": ["worker-0", "worker-1:5673"], "tls": {"caFile": "/tls/ca.crt", "serverName": "worker"},
      "credentials": {"usernameFile": "/login/username", "passwordFile": "/login/password"}},
    "fast": {"hosts": ["fast"], "tls": {"enabled": false}}
  },
  "classes": {
    "worker": {"cluster": "worker", "old": "old-rabbit", "phase": "Before", "deadLetter": "worker.dead"},
    "admin": {}
  },
  "queues": {
    "worker.watching": {"class": "worker", "phase": "Watching"},
    "worker.held": {"class": "worker", "phase": "Held", "deadLetter": "held.dead"},
    "worker.flipped": {"class": "worker", "phase": "Flipped", "unpack": true},
    "worker.settled": {"class": "worker", "phase": "Settled", "deadLetter": ""},
    "worker.inherits": {"class": "WORKER"},
    "special": {"class": "worker", "cluster": "fast", "phase": "Settled"}
  },
  "exchanges": {"jobs": {"class": "worker", "phase": "Held"}},
  "rules": [
    {"pattern": "^jobs\\.", "class": "worker", "phase": "Watching"},
    {"pattern": "^worker\\.r[0-9]+$", "class": "worker", "phase": "Flipped"}
  ]
}`

func TestRoutesFile(t *testing.T) {
	table := mustFile(t, move, "RMQ_ADMIN_HOSTS=admin", "RMQ_MAIL_HOSTS=mail")
	for _, c := range []struct {
		queue, class, want, deadLetter string
		unpack                         bool
	}{
		{"worker.any", "", "worker: Before; publish old-rabbit; consume old-rabbit", "worker.dead", false},
		{"worker.watching", "", "worker: Watching; publish old-rabbit; consume old-rabbit, worker", "worker.dead", false},
		{"worker.held", "", "worker: Held; hold; consume old-rabbit, worker", "held.dead", false},
		{"worker.flipped", "", "worker: Flipped; publish worker; consume old-rabbit, worker", "worker.dead", true},
		{"worker.settled", "", "worker: Settled; publish worker; consume worker", "", false},
		{"worker.inherits", "", "worker: Before; publish old-rabbit; consume old-rabbit", "worker.dead", false},
		{"special", "", "worker: Settled; publish fast; consume fast", "worker.dead", false},
		{"jobs.render", "", "worker: Watching; publish old-rabbit; consume old-rabbit, worker", "worker.dead", false},
		{"worker.r12", "", "worker: Flipped; publish worker; consume old-rabbit, worker", "worker.dead", false},
		// A class that is given keeps what the file says of its own queues, and nothing of another's.
		{"worker.held", "worker", "worker: Held; hold; consume old-rabbit, worker", "held.dead", false},
		{"worker.held", "Worker", "worker: Held; hold; consume old-rabbit, worker", "held.dead", false},
		{"worker.r12", "worker", "worker: Flipped; publish worker; consume old-rabbit, worker", "worker.dead", false},
		{"worker.held", "admin", "admin: Settled; publish admin; consume admin", "", false},
		{"jobs.render", "mail", "mail: Settled; publish mail; consume mail", "", false},
		{"mail.x", "", "mail: Settled; publish mail; consume mail", "", false},
	} {
		r, err := table.Queue(c.queue, c.class)
		if err != nil || r.String() != c.want || r.DeadLetter != c.deadLetter || r.Unpack != c.unpack {
			t.Errorf("%s, %s: got %v, %q, %v, %v; want %s", c.queue, c.class, r, r.DeadLetter, r.Unpack, err, c.want)
		}
	}
	if table.Revision() != "7" || len(table.Clusters()) != 5 {
		t.Errorf("got %v", table)
	}
	worker, _ := table.Queue("worker.settled", "")
	if got, want := worker.Publish.String(), `worker (amqps://worker-0:5671,worker-1:5673, virtual host "/")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := worker.Publish.Key(); !strings.Contains(got, `login="/login/username","/login/password" tls="/tls/ca.crt","","","worker"`) {
		t.Errorf("got key %s", got)
	}
}

func TestRoutesOfExchanges(t *testing.T) {
	table := mustFile(t, move, "RMQ_ADMIN_HOSTS=admin", "RMQ_MAIL_HOSTS=mail")
	if r, err := table.Exchange("jobs", ""); err != nil || !r.Hold {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := table.Exchange("worker.r12", ""); err != nil || r.Phase != Before {
		t.Errorf("a rule is about queues only: got %v, %v", r, err)
	}
	if _, err := table.Queue("unknown.x", ""); !errors.Is(err, ErrNoRoute) || !strings.Contains(err.Error(), "/routes.json has no entry or rule") {
		t.Errorf("got %v", err)
	}
}

// refused are files that are not taken, and what the error says.
var refused = map[string]struct{ text, says string }{
	"no JSON":                   {"{\n\"version\": 1,\n}", "line 3: not JSON"},
	"empty":                     {"", "not JSON"},
	"two values":                {`{"version": 1} {}`, "not JSON"},
	"no UTF-8":                  {"{\"version\": 1, \"revision\": \"\xff\"}", "not UTF-8"},
	"a list":                    {`[]`, "an object is wanted"},
	"no version":                {`{}`, "version: 1 is wanted"},
	"a later version":           {`{"version": 2}`, "version: 1 is wanted"},
	"version as a string":       {`{"version": "1"}`, "version: a number is wanted"},
	"revision as a number":      {`{"version": 1, "revision": 7}`, "revision: a string is wanted"},
	"null":                      {`{"version": 1, "queues": null}`, "queues: an object is wanted"},
	"unknown field":             {"{\"version\": 1,\n\"route\": {}}", `line 2: there is no field "route"`},
	"field of other case":       {`{"version": 1, "Queues": {}}`, `there is no field "Queues"`},
	"field twice":               {`{"version": 1, "version": 1}`, "version: it is there twice"},
	"nothing at all":            {`{"version": 1, "classes": {}}`, "no hosts"},
	"unknown field in a queue":  {`{"version": 1, "queues": {"a.b": {"class": "env", "durable": true}}}`, `queues["a.b"]: there is no field "durable"`},
	"queue twice":               {"{\"version\": 1, \"queues\": {\"q\": {\"class\": \"env\"},\n\"q\": {\"class\": \"env\"}}}", `line 2: queues["q"]: it is there twice`},
	"queue with an empty name":  {`{"version": 1, "queues": {"": {"class": "env"}}}`, `queues[""]: a name has 1 to 255 bytes`},
	"queue without a class":     {`{"version": 1, "queues": {"q": {"phase": "Held"}}}`, `queues["q"].class: it is missing`},
	"queue of unknown class":    {`{"version": 1, "queues": {"q": {"class": "mail"}}}`, `queues["q"]: class: "mail" is neither in classes nor in the environment`},
	"queue of unknown phase":    {`{"version": 1, "queues": {"q": {"class": "env", "phase": "held"}}}`, `queues["q"]: phase: "held" is no phase`},
	"queue of unknown cluster":  {`{"version": 1, "queues": {"q": {"class": "env", "cluster": "x"}}}`, `queues["q"]: cluster: "x" is not in clusters`},
	"queue on no old cluster":   {`{"version": 1, "queues": {"q": {"class": "env", "phase": "Held"}}}`, `queues["q"]: phase Held needs an old cluster`},
	"queue its own dead letter": {`{"version": 1, "queues": {"q": {"class": "env", "deadLetter": "q"}}}`, "cannot be its own"},
	"unpack as a string":        {`{"version": 1, "queues": {"q": {"class": "env", "unpack": "true"}}}`, "unpack: true or false is wanted"},
	"exchange with unpack":      {`{"version": 1, "exchanges": {"e": {"class": "env", "unpack": true}}}`, `exchanges["e"]: there is no field "unpack"`},
	"exchange twice":            {`{"version": 1, "exchanges": {"e": {"class": "env"}, "e": {"class": "env"}}}`, `exchanges["e"]: it is there twice`},
	"class twice":               {`{"version": 1, "classes": {"env": {}, "env": {}}}`, `classes["env"]: it is there twice`},
	"overlapping classes":       {`{"version": 1, "classes": {"env": {}, "ENV": {}}}`, `classes["ENV"]: it is the same as "env"`},
	"overlapping by a low line": {`{"version": 1, "clusters": {"c": {"hosts": ["c"]}}, "classes": {"a-b": {"cluster": "c"}, "a_b": {"cluster": "c"}}}`, `classes["a_b"]: it is the same as "a-b"`},
	"class without a cluster":   {`{"version": 1, "classes": {"mail": {}}}`, `classes["mail"]: no hosts: it names no cluster, and RMQ_MAIL_HOSTS is not set`},
	"class on an unknown one":   {`{"version": 1, "classes": {"mail": {"cluster": "x"}}}`, `classes["mail"]: cluster: "x" is not in clusters`},
	"class with old only":       {`{"version": 1, "clusters": {"c": {"hosts": ["c"]}}, "classes": {"env": {"old": "c"}}}`, "old without cluster"},
	"class on the same twice":   {`{"version": 1, "clusters": {"c": {"hosts": ["c"]}}, "classes": {"mail": {"cluster": "c", "old": "c", "phase": "Flipped"}}}`, "the same host"},
	"class named old":           {`{"version": 1, "classes": {"worker-old": {}}}`, "cannot be named"},
	"class with a dot":          {`{"version": 1, "classes": {"a.b": {}}}`, "is not made of"},
	"cluster without hosts":     {`{"version": 1, "clusters": {"c": {}}}`, `clusters["c"]: hosts: no hosts`},
	"cluster with a broken one": {`{"version": 1, "clusters": {"c": {"hosts": ["a", "amqp://u:secret@a"]}}}`, `clusters["c"]: hosts[1] is not HOST or HOST:PORT`},
	"cluster with a list":       {`{"version": 1, "clusters": {"c": {"hosts": ["a,b"]}}}`, `clusters["c"]: hosts[0]`},
	"cluster with a number":     {`{"version": 1, "clusters": {"c": {"hosts": [1]}}}`, `clusters["c"].hosts[0]: a string is wanted`},
	"overlapping clusters":      {`{"version": 1, "clusters": {"c": {"hosts": ["a"]}, "C": {"hosts": ["b"]}}}`, `clusters["C"]: it is the same as "c"`},
	"a password":                {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"password": "secret"}}}}`, "passwords are not written here"},
	"a password as the env":     {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"env": "secret"}}}}`, "credentials: env"},
	"a password as the file":    {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"usernameFile": "/u", "passwordFile": "secret"}}}}`, "passwordFile is not an absolute path"},
	"a password as the binding": {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"binding": "secret"}}}}`, "SERVICE_BINDING_ROOT"},
	"another's variables":       {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"env": "AWS"}}}}`, "does not begin with RMQ_"},
	"two credentials":           {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"env": "RMQ_C", "binding": "c"}}}}`, "one of env, binding"},
	"half of credentials":       {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {"usernameFile": "/u"}}}}`, "one of env, binding"},
	"no credentials":            {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "credentials": {}}}}`, "one of env, binding"},
	"a certificate alone":       {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "tls": {"certFile": "/c"}}}}`, "tls: certFile and keyFile"},
	"a relative path":           {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "tls": {"caFile": "ca.crt"}}}}`, "caFile is not an absolute path"},
	"an insecure TLS":           {`{"version": 1, "clusters": {"c": {"hosts": ["a"], "tls": {"insecureSkipVerify": true}}}}`, "there is no field"},
	"rule without a pattern":    {`{"version": 1, "rules": [{"class": "env"}]}`, "rules[0].pattern: it is missing"},
	"rule without a class":      {`{"version": 1, "rules": [{"pattern": "x"}]}`, "rules[0].class: it is missing"},
	"rule of unknown class":     {`{"version": 1, "rules": [{"pattern": "x", "class": "mail"}]}`, "rules[0]: class"},
	"broken pattern":            {`{"version": 1, "rules": [{"pattern": "x", "class": "env"}, {"pattern": "(", "class": "env"}]}`, "rules[1].pattern: not RE2"},
	"pattern of another kind":   {`{"version": 1, "rules": [{"pattern": "a(?=b)", "class": "env"}]}`, "not RE2"},
	"the same pattern":          {`{"version": 1, "rules": [{"pattern": "x$", "class": "env"}, {"pattern": "x$", "class": "env"}]}`, "rules[1]: it never applies: rules[0] has the same"},
	"after a rule for all":      {`{"version": 1, "rules": [{"pattern": "^.*$", "class": "env"}, {"pattern": "^x", "class": "env"}]}`, "rules[1]: it never applies: rules[0] takes all"},
	"after a shorter beginning": {`{"version": 1, "rules": [{"pattern": "^a\\.", "class": "env"}, {"pattern": "^a\\.b.*c$", "class": "env"}]}`, "rules[1]: it never applies"},
	"long pattern":              {`{"version": 1, "rules": [{"pattern": "` + strings.Repeat("a", 1001) + `", "class": "env"}]}`, "longer than 1000"},
	"many rules":                {`{"version": 1, "rules": [` + strings.Repeat(`{"pattern": "x", "class": "env"},`, 1000) + `{"pattern": "x", "class": "env"}]}`, "more than 1000 rules"},
}

func TestRefusedFiles(t *testing.T) {
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			environ := []string{"RMQ_ENV_HOSTS=env"}
			if name == "nothing at all" {
				environ = nil
			}
			_, err := fromFile(c.text, environ...)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q and no password", err, c.says)
			}
		})
	}
}

func TestAcceptedRules(t *testing.T) {
	for _, patterns := range [][]string{
		{`^a\.`, `^ab`, `^a`, `.*`}, {`a`, `^a`}, {`^a$`, `^ab`}, {`(?i)^a`, `^ab`}, {`^a.+`, `^ab`}, {`^(a|b)`, `^a`},
	} {
		rules := []string{}
		for _, p := range patterns {
			rules = append(rules, fmt.Sprintf(`{"pattern": %q, "class": "env"}`, p))
		}
		if _, err := fromFile(`{"version": 1, "rules": [`+strings.Join(rules, ",")+`]}`, "RMQ_ENV_HOSTS=a"); err != nil {
			t.Errorf("%q: %v", patterns, err)
		}
	}
}

// A whole move is written in the queue's entry alone.
func TestPhases(t *testing.T) {
	for _, c := range []struct {
		phase   Phase
		publish string // "" holds
		consume []string
	}{
		{Before, "old", []string{"old"}},
		{Watching, "old", []string{"old", "new"}},
		{Held, "", []string{"old", "new"}},
		{Flipped, "new", []string{"old", "new"}},
		{Settled, "new", []string{"new"}},
	} {
		table := mustFile(t, fmt.Sprintf(`{"version": 1, "clusters": {"new": {"hosts": ["n"]}, "old": {"hosts": ["o"]}},
			"classes": {"worker": {"cluster": "new", "old": "old"}}, "queues": {"worker.q": {"class": "worker", "phase": %q}}}`, c.phase))
		r, err := table.Queue("worker.q", "")
		if err != nil {
			t.Fatal(err)
		}
		var consume []string
		for _, cluster := range r.Consume {
			consume = append(consume, cluster.Name)
		}
		publish := ""
		if r.Publish != nil {
			publish = r.Publish.Name
		}
		if r.Phase != c.phase || publish != c.publish || r.Hold != (c.publish == "") || !slices.Equal(consume, c.consume) {
			t.Errorf("%s: got %v", c.phase, r)
		}
	}
}

// checkRoute holds what is true of every route: one cluster to publish to or hold, one or two to consume from, and the one
// to publish to is among them.
func checkRoute(t *testing.T, r Route) {
	t.Helper()
	if (r.Publish == nil) != r.Hold || len(r.Consume) < 1 || len(r.Consume) > 2 || r.Publish != nil && !slices.Contains(r.Consume, r.Publish) {
		t.Fatalf("not a route: %v", r)
	}
	if len(r.Consume) == 2 && r.Consume[0].Key() == r.Consume[1].Key() {
		t.Fatalf("one cluster twice: %v", r)
	}
	for _, c := range r.Consume {
		checkAddresses(t, c.Hosts)
	}
}

func TestExactlyOnePublisherEndpoint(t *testing.T) {
	table := mustFile(t, move, "RMQ_ADMIN_HOSTS=admin", "RMQ_ADMIN_OLD_HOSTS=old")
	for _, list := range []map[string]*entry{table.classes, table.queues, table.exchanges} {
		for _, e := range list {
			checkRoute(t, e.route)
		}
	}
	for _, r := range table.rules {
		checkRoute(t, r.route)
	}
}

func FuzzRoutes(f *testing.F) {
	f.Add(move)
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if len(refused[name].text) < 1000 {
			f.Add(refused[name].text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := fromFile(text, "RMQ_ENV_HOSTS=env", "RMQ_ADMIN_HOSTS=admin", "RMQ_ADMIN_OLD_HOSTS=old", "RMQ_ADMIN_PASSWORD=jXq7-unlikely")
		if err != nil {
			if strings.Contains(err.Error(), "unlikely") {
				t.Fatal(err)
			}
			return
		}
		for name, e := range table.queues {
			checkRoute(t, e.route)
			if r, err := table.Queue(name, ""); err != nil || r.String() != e.route.String() {
				t.Fatalf("queue %q: got %v, %v", name, r, err)
			}
		}
		for _, name := range []string{"env.x", "x", "", "jobs.render"} {
			if r, err := table.Queue(name, "env"); err != nil {
				t.Fatal(err)
			} else {
				checkRoute(t, r)
			}
		}
		if lost := table.lost(table); len(lost) > 0 {
			t.Fatalf("a table knows not its own: %v", lost)
		}
		_ = table.String()
	})
}

func large(queues int) string {
	var b strings.Builder
	b.WriteString(`{"version": 1, "clusters": {"old": {"hosts": ["o"]}, "new": {"hosts": ["n"]}}, "classes": {"worker": {"cluster": "new", "old": "old"}}, "queues": {`)
	for i := range queues {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `"worker.queue-%d": {"class": "worker", "phase": "Watching", "deadLetter": "worker.dead"}`, i)
	}
	b.WriteString(`}, "rules": [{"pattern": "^jobs\\.", "class": "worker"}]}`)
	return b.String()
}

func BenchmarkLoad50000Queues(b *testing.B) {
	text := large(50_000)
	for b.Loop() {
		mustFile(b, text)
	}
}

func BenchmarkLookup(b *testing.B) {
	table := mustFile(b, large(50_000))
	for name, queue := range map[string]string{"entry": "worker.queue-49999", "rule": "jobs.x", "segment": "worker.other"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := table.Queue(queue, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestManyQueues(t *testing.T) {
	table := mustFile(t, large(50_000))
	if len(table.queues) != 50_000 || len(table.Clusters()) != 2 {
		t.Errorf("got %v", table)
	}
}
