package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/golden"
)

// The files are what brokers said while two queues, one of each type, were published to faster than they were consumed.
func TestParseMetricsOfRealBrokers(t *testing.T) {
	files, err := filepath.Glob("testdata/metrics/*.txt")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseMetrics(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, strings.TrimSuffix(file, ".txt")+".json", append(out, '\n'))
		version, erlang := Build(text)
		if want := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".txt"), "-detailed"); version != want || erlang == "" {
			t.Errorf("%s: RabbitMQ %q, Erlang %q", file, version, erlang)
		}
	}
}

// Each name of the table is in what the version says that it has it, or the table lies.
func TestSeriesTableIsTrue(t *testing.T) {
	said := map[string]string{}
	for _, version := range []string{"3.10.8", "4.3.6"} {
		for _, kind := range []string{"", "-detailed"} {
			text, err := os.ReadFile("testdata/metrics/" + version + kind + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			said[version] += strings.ReplaceAll(string(text), "rabbitmq_detailed_", "rabbitmq_")
		}
	}
	seen := map[string]bool{}
	for _, series := range SeriesTable() {
		if seen[series.Field] {
			t.Errorf("%s is twice in the table", series.Field)
		}
		seen[series.Field] = true
		sample := Sample{}
		v := 1.5
		*series.into(&sample) = &v
		if text, _ := json.Marshal(sample); !strings.Contains(string(text), `"`+series.Field+`":1.5`) {
			t.Errorf("%s fills %s", series.Field, text)
		}
		for _, name := range series.Names {
			for version, text := range said {
				minor := version[:strings.LastIndex(version, ".")]
				has := strings.Contains(text, "\n"+name.Name+" ") || strings.Contains(text, "\n"+name.Name+"{")
				first, last, _ := strings.Cut(name.Versions, "–")
				if last == "" {
					last = first
				}
				if claimed := minor == first || minor == last; claimed != has && !(has && len(name.Labels) > 0) {
					t.Errorf("%s: in %s is %v, the table says %s", name.Name, version, has, name.Versions)
				}
			}
		}
	}
}

func TestParseMetricsFolds(t *testing.T) {
	s, err := ParseMetrics([]byte(`# TYPE rabbitmq_detailed_queue_consumer_capacity gauge
rabbitmq_detailed_queue_consumer_capacity{vhost="b",queue="a"} 0.9
rabbitmq_detailed_queue_consumer_capacity{vhost="b",queue="c"} 0.25
rabbitmq_detailed_queue_consumer_capacity{vhost="b",queue="idle"} 0
rabbitmq_detailed_queue_consumers{vhost="b",queue="a"} 1
rabbitmq_detailed_queue_consumers{vhost="b",queue="idle"} 0
rabbitmq_queue_process_reductions_total{queue="a"} 5
rabbitmq_queue_process_reductions_total{queue="c"} 7
rabbitmq_queue_messages_ready{queue="a"} NaN
rabbitmq_global_messages_unroutable_dropped_total{protocol="amqp091"} 2
rabbitmq_global_messages_unroutable_dropped_total{protocol="amqp10"} 3
rabbitmq_global_messages_unroutable_returned_total{protocol="amqp10"} 4
`))
	if err != nil {
		t.Fatal(err)
	}
	number := func(v float64) *float64 { return &v }
	want := Sample{
		ConsumerCapacityRatio: number(0.25), QueueReductionsTotal: number(12), HottestQueueReductionsTotal: number(7), UnroutableTotal: number(9),
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v", s)
	}
	if _, err := ParseMetrics([]byte("rabbitmq_queues{ 1\n")); err == nil {
		t.Error("nonsense was read")
	}
}

func TestJoin(t *testing.T) {
	one, two, three := 1.0, 2.0, 3.0
	got := Join(Sample{AtSeconds: 4, Node: "a", Queues: &one}, Sample{AtSeconds: 5, Queues: &two, CPUSecondsTotal: &three})
	if got.AtSeconds != 4 || got.Node != "a" || *got.Queues != 1 || *got.CPUSecondsTotal != 3 {
		t.Errorf("%+v", got)
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte("# TYPE rabbitmq_queues gauge\nrabbitmq_queues 5\n"))
	f.Add([]byte("rabbitmq_identity_info{rabbitmq_node=\"a\"} 1\nerlang_vm_schedulers_online +Inf\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseMetrics(text)
		if err != nil {
			return
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}
