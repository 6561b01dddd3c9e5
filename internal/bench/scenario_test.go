package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/internal/golden"
)

func TestMatrix(t *testing.T) {
	entries, err := os.ReadDir("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	all := Matrix()
	if len(entries) != len(all) {
		t.Errorf("%d files, %d scenarios", len(entries), len(all))
	}
	for i := range all {
		s := &all[i]
		if s.Description == "" || s.Name != matrix[i] {
			t.Errorf("%s: no description, or another name than its file %s", s.Name, matrix[i])
		}
		// What a result holds reads back as the same scenario, with its defaults.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeScenario(text)
		if err != nil || !reflect.DeepEqual(again, *s) {
			t.Errorf("%s: read back as %+v (%v)", s.Name, again, err)
		}
	}
	if _, err := Builtin("SmallConfirmd"); err == nil || !strings.Contains(err.Error(), "did you mean SmallConfirmed?") {
		t.Error(err)
	}
}

func schemaValidator(t testing.TB) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(ScenarioSchema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("scenario.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// accepts says whether the schema takes the YAML.
func accepts(t testing.TB, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestSchemaFile(t *testing.T) {
	golden.Equal(t, "scenario.schema.json", ScenarioSchema())
}

func TestSchemaTakesTheMatrix(t *testing.T) {
	schema := schemaValidator(t)
	for _, name := range matrix {
		if err := accepts(t, schema, ScenarioFile(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachFieldIsDescribed(t *testing.T) {
	paths := map[string]bool{}
	var walk func(path string, t reflect.Type)
	walk = func(path string, ty reflect.Type) {
		if ty.Kind() == reflect.Pointer {
			ty = ty.Elem()
		}
		if path != "" {
			paths[path] = true
			if ruleOf(path) == nil {
				t.Errorf("%s has no rule", path)
			}
		}
		if ty.Kind() == reflect.Struct {
			for f := range fields(ty) {
				walk(join(path, f.name), f.goType)
			}
		}
	}
	walk("", reflect.TypeFor[Scenario]())
	for _, r := range rules {
		if !paths[r.path] {
			t.Errorf("the rule %s is of no field", r.path)
		}
	}
}

// The schema and the decoder agree on what each field may be. What only the decoder can know is marked.
func TestFaults(t *testing.T) {
	const decoderOnly = true
	schema := schemaValidator(t)
	for _, test := range []struct {
		file   string
		faults string // one a line; "" for a good file
		only   bool
	}{
		{`name: A`, ``, false},
		{`{"name": "A", "load": {"mode": "Open", "rate": 12.5}, "queues": {"arguments": {"x-max-length": 5, "x-overflow": "reject-publish", "b": true}}}`, ``, false},
		{`{name: A, message: {sizes: [256, 10KiB, 1MB]}, storm: {connections: 5, jitter: 1m30s}, backlog: {messages: 7}}`, ``, false},
		{`{name: A, publishers: {count: 0}, consumers: {count: 0}, storm: {connections: 5}}`, ``, false},
		{`{}`, `name: want CamelCase of at most 63 letters and digits, not ""`, false},
		{`name: small-messages`, `name: want CamelCase of at most 63 letters and digits, not "small-messages"`, false},
		{`[1]`, `want fields, not a list`, false},
		{``, `the file is empty: want the fields of a scenario`, false},
		{"# nothing\n---\n", `the file is empty: want the fields of a scenario`, false},
		{"%YAML 1.1\n---\n# one\nname: A\ndescription: |\n  ---\n  text\n...\n", ``, false},
		{"name: A\n---\n# nothing more\n", ``, false},
		{"name: A\n---\nname: B\n", `there are several documents, with --- between them: want a file for each scenario`, decoderOnly},
		{"--- {name: A}\n--- {name: B}\n", `there are several documents, with --- between them: want a file for each scenario`, decoderOnly},
		{`{name: A, load: {mode: Open, rate: .nan}}`, `want numbers that are finite, not NaN`, false},
		{`{name: A, caps: {rate: .inf}}`, `want numbers that are finite, not +Inf`, false},
		{`{name: A, publisher: {count: 1}}`, `publisher: is not a field; did you mean publishers?`, false},
		{`{name: A, publishers: {confirmwindow: 1, x: 2}, runs: x}`,
			"publishers.confirmwindow: is not a field; did you mean confirmWindow?\n" +
				"publishers.x: is not a field; the fields are count, connections, confirmWindow\n" +
				`runs: want a whole number, not "x"`, false},
		{`{name: A, consumers: 5}`, `consumers: want fields, not 5`, false},
		{`{name: A, consumers: }`, `consumers: has no value; leave the field out for its default`, false},
		{`{name: A, backlog: {}}`, `backlog.messages: want 1 to 1000000000, not 0`, false},
		{`{name: A, warmUp: 10}`, `warmUp: want a duration as a string, as in "5s", not 10`, false},
		{`{name: A, warmUp: -1s, coolDown: "10"}`,
			"warmUp: want a duration with a unit, as in \"5s\" or \"1m30s\", not \"-1s\"\n" +
				`coolDown: want a duration with a unit, as in "5s" or "1m30s", not "10"`, false},
		{`{name: A, message: {sizes: [10kb, -1, 1.5, 1TiB]}}`,
			"message.sizes[0]: want a size with a unit, as in \"256B\" or \"10KiB\", not \"10kb\"\n" +
				"message.sizes[1]: want a whole number of bytes or a size as in \"10KiB\", not -1\n" +
				"message.sizes[2]: want a whole number of bytes or a size as in \"10KiB\", not 1.5\n" +
				`message.sizes[3]: want a size with a unit, as in "256B" or "10KiB", not "1TiB"`, false},
		{`{name: A, message: {sizes: []}}`, `message.sizes: want 1 to 100 sizes, not 0`, false},
		{`{name: A, message: {persistent: "yes"}}`, `message.persistent: want true or false, not "yes"`, false},
		{`{name: A, load: {mode: open, rate: 5}}`, `load.mode: want Open or Closed, not "open"`, false},
		{`{name: A, load: {mode: Open}}`, `load.rate: is needed in mode Open`, false},
		{`{name: A, load: {rate: 5}}`, `load.rate: mode Closed has no rate; use mode Open, or caps.rate for a bound`, false},
		{`{name: A, load: {mode: Open, rate: -1}}`, `load.rate: want 0 to 10000000, not -1`, false},
		{`{name: A, load: {mode: Open, rate: "5"}}`, `load.rate: want a number, not "5"`, false},
		{`{name: A, runs: 0, workers: 1001, queues: {type: Lazy}}`, `queues.type: want Classic or Quorum or Stream or Mirrored, not "Lazy"`, false},
		{`{name: A, runs: 0, workers: 1001, consumers: {prefetch: 70000}}`,
			"consumers.prefetch: want 0 to 65535, not 70000\nworkers: want 1 to 1000, not 1001\nruns: want 1 to 100, not 0", false},
		{`{name: A, queues: {arguments: {x: 1.5, z: [1], x-queue-type: quorum}}}`,
			"queues.arguments.x: want a whole number, not 1.5\nqueues.arguments.z: want text, a whole number, true or false, not a list", false},
		{`{name: A, queues: {arguments: {x-queue-type: quorum}}}`, `queues.arguments.x-queue-type: is what queues.type says`, false},
		{`{name: A, name: B}`, "yaml: unmarshal errors:\n  line 1: key \"name\" already set in map", false},

		{`{name: A, message: {sizes: [31B, 200MiB]}}`, "message.sizes[0]: want 32B to 128MiB, not 31B\nmessage.sizes[1]: want 32B to 128MiB, not 200MiB", decoderOnly},
		{`{name: A, duration: 25h, warmUp: 2h, consumers: {batch: {size: 5, wait: 1us}}}`,
			"consumers.batch.wait: want 1ms to 1m, not 1µs\nwarmUp: want 0s to 1h, not 2h\nduration: want 1s to 24h, not 25h", decoderOnly},
		{`{name: A, load: {mode: Open, rate: 5}, caps: {rate: 4, connections: 1}, publishers: {count: 0}}`,
			"publishers.count: mode Open needs publishers\nload.rate: 5 is more than caps.rate 4\n" +
				"publishers.count: consumers have nothing to receive: want publishers, and for consumers alone a backlog too", decoderOnly},
		{`{name: A, consumers: {ackEvery: 300, batch: {size: 150}}, caps: {connections: 1}}`,
			"consumers.ackEvery: must be 1 with a batch: each batch is acknowledged at once\n" +
				"consumers.prefetch: 200 is less than twice consumers.batch.size: nothing would be fetched while a batch is handled; want at least 300\n" +
				"consumers.ackEvery: 300 is more than consumers.prefetch 200: each acknowledgement would wait for consumers.ackWait\n" +
				"caps.connections: the scenario needs 2 connections, the cap is 1", decoderOnly},
		{`{name: A, consumers: {library: Warren, batch: {size: 100}}}`, ``, false},
		{`{name: A, consumers: {library: Warren}}`, `consumers.batch: is needed with library Warren, which consumes in batches`, decoderOnly},
		{`{name: A, consumers: {library: Plain, batch: {size: 100}}}`, `consumers.library: want Warren, not "Plain"`, false},
		{`{name: A, consumers: {library: Warren, prefetch: 0, latency: 31s, batch: {size: 100}}, queues: {type: Stream}}`,
			"consumers.prefetch: is needed with library Warren, which does not consume without a bound; want at least 200\n" +
				"consumers.library: Warren's client library does not read streams\n" +
				"consumers: a stream needs a prefetch and manual acknowledgements", decoderOnly},
		{`{name: A, queues: {like: {name: payments.bench, vhost: shop}}}`, ``, false},
		{`{name: A, queues: {like: {vhost: shop}}}`, `queues.like.name: want a name of 1 to 100 bytes, not 0`, decoderOnly},
		{`{name: A, queues: {like: {name: "a\nb"}}}`, `queues.like.name: must not have line breaks, which the broker leaves out of names`, decoderOnly},
		{`{name: A, queues: {like: {name: amq.x}}}`, `queues.like.name: names that begin with amq. are the broker's own`, decoderOnly},
		{`{name: A, queues: {type: Mirrored, like: {name: x}}}`,
			`queues.like: brings the policies of queues.like.vhost, and type Mirrored one of its own: want one of them`, decoderOnly},
		{`{name: A, queues: {type: Stream}, consumers: {prefetch: 0}}`, `consumers: a stream needs a prefetch and manual acknowledgements`, decoderOnly},
		{`{name: A, load: {mode: Open, rate: 1}, publishers: {count: 0}, consumers: {count: 0}, backlog: {messages: 10000000}, message: {sizes: [1KiB]}}`,
			"publishers.count: mode Open needs publishers\npublishers.count: a backlog needs publishers that build it\n" +
				"consumers.count: a backlog needs consumers that drain it; publishers alone need no backlog\n" +
				"load.mode: must be Closed with a backlog; backlog.freshRate is the rate while it drains\n" +
				"backlog.messages: 10000000 messages are about 9766 MiB, more than caps.disk 2GiB\n" +
				"there is nothing to do: want publishers, consumers or a storm", decoderOnly},
		{`{name: A, workers: 3, queues: {count: 2}, publishers: {connections: 2}, consumers: {connections: 2}}`,
			"publishers.connections: 2 connections for 1 publishers\nconsumers.connections: 2 connections for 1 consumers\n" +
				"queues.count: 2 queues for 1 publishers: each publisher has one queue, the others would stay empty\n" +
				"queues.count: 2 queues for 1 consumers: each consumer has one queue, the others would only grow\n" +
				"workers: 3 workers for 1 clients: some would have nothing to do", decoderOnly},
	} {
		_, err := DecodeScenario([]byte(test.file))
		got := ""
		if err != nil {
			got = err.Error()
			if !errors.As(err, new(Faults)) {
				t.Errorf("%s: the error is a %T", test.file, err)
			}
		}
		if got != test.faults {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", test.file, got, test.faults)
		}
		bySchema := accepts(t, schema, []byte(test.file))
		if want := test.faults == "" || test.only; (bySchema == nil) != want {
			t.Errorf("%s\nthe schema says: %v, want accepted: %v", test.file, bySchema, want)
		}
	}
}

// A file that is something else altogether has few lines of faults.
func TestManyFaults(t *testing.T) {
	var file strings.Builder
	file.WriteString("name: A\n")
	for i := range 3000 {
		fmt.Fprintf(&file, "other%04d: 1\n", i)
	}
	_, err := DecodeScenario([]byte(file.String()))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != mostFaults+1 || lines[mostFaults] != "and 2980 more faults" || !strings.HasPrefix(lines[0], "other0000: ") {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestDefaultsOfAFile(t *testing.T) {
	s, err := DecodeScenario([]byte(`{name: A, consumers: {batch: {size: 5}, count: 2}, queues: {arguments: {x-max-length: 7}, like: {name: q}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Name = "A"
	want.Consumers.Count = 2
	want.Consumers.Batch = &Batch{Size: 5, Wait: Duration(50e6)}
	want.Queues.Arguments = Arguments{"x-max-length": int64(7)}
	want.Queues.Like = &Likeness{Name: "q", VHost: "/"}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]Size{"0B": 0, "256B": 256, "10KiB": 10240, "1MB": 1e6, "3GiB": 3 << 30} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "KiB", "1.5KiB", "-1B", "+1B", "1 KiB", "9999999999GiB", "1kib"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for size, want := range map[Size]string{0: "0B", 256: "256B", 10240: "10KiB", 1 << 31: "2GiB", 1025: "1025B"} {
		if size.String() != want {
			t.Errorf("%d: %s", size, size)
		}
	}
	for d, want := range map[Duration]string{0: "0s", Duration(60e9): "1m", Duration(3600e9): "1h", Duration(90e9): "1m30s", Duration(5e6): "5ms"} {
		if d.String() != want {
			t.Errorf("%d: %s, want %s", d, d, want)
		}
	}
}

// Whatever a file holds: no panic, and what is taken reads back and is taken by the schema.
func FuzzDecodeScenario(f *testing.F) {
	for _, name := range matrix {
		f.Add(ScenarioFile(name))
	}
	f.Add([]byte(`{"name":"A","queues":{"arguments":{"x":9007199254740993}}}`))
	schema := schemaValidator(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := DecodeScenario(text)
		if err != nil {
			return
		}
		if err := accepts(t, schema, text); err != nil {
			t.Errorf("the schema refuses what the decoder takes: %v", err)
		}
		file, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeScenario(file)
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s\nreads back as %+v (%v)", file, again, err)
		}
	})
}
