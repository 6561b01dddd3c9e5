package bench

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Fold says how the values of a series that has several become one.
type Fold string

// The folds.
const (
	FoldSum Fold = "sum"
	FoldMax Fold = "max"
	FoldMin Fold = "min"
)

// SeriesName is one name of a series.
type SeriesName struct {
	// Name without the "detailed_" that /metrics/detailed has after "rabbitmq_".
	Name string
	// Versions of RabbitMQ that have it, for readers.
	Versions string
	// Labels that must have these values; "*" for any value, which takes only series that are told object by object.
	Labels map[string]string
}

// Series says where a field of Sample comes from in what RabbitMQ's Prometheus plugin says.
type Series struct {
	// Field is its name in the file.
	Field string
	Fold  Fold
	// Names in order: the first that is there counts. With Add all that are there are added.
	Names []SeriesName
	Add   bool

	into func(*Sample) **float64
}

func named(versions string, names ...string) []SeriesName {
	out := make([]SeriesName, len(names))
	for i, name := range names {
		out[i] = SeriesName{Name: name, Versions: versions}
	}
	return out
}

const always = "3.10–4.3"

// seriesTable was read off RabbitMQ 3.10.8 and 4.3.6. Where two names are given for one version, the first is read when it is
// asked for and the second only every five seconds. What is not here is told by no version: which connections are in flow
// is in the management API; CPU, disk and network are the kernel's to tell (rabbitmq_io_* are 0 since 4.0, and erlang_vm_*
// count CPU time in another unit than their name says).
var seriesTable = []Series{
	{"memoryUsedBytes", FoldSum, named(always, "rabbitmq_process_resident_memory_bytes"), false, func(s *Sample) **float64 { return &s.MemoryUsedBytes }},
	{"memoryWatermarkBytes", FoldSum, named(always, "rabbitmq_resident_memory_limit_bytes"), false, func(s *Sample) **float64 { return &s.MemoryWatermarkBytes }},
	{"diskFreeBytes", FoldSum, named(always, "rabbitmq_disk_space_available_bytes"), false, func(s *Sample) **float64 { return &s.DiskFreeBytes }},
	{"diskFreeLimitBytes", FoldSum, named(always, "rabbitmq_disk_space_available_limit_bytes"), false, func(s *Sample) **float64 { return &s.DiskFreeLimitBytes }},
	{"brokerReceiveBytesTotal", FoldSum, named(always, "rabbitmq_connection_incoming_bytes_total"), false, func(s *Sample) **float64 { return &s.BrokerReceiveBytesTotal }},
	{"brokerTransmitBytesTotal", FoldSum, named(always, "rabbitmq_connection_outgoing_bytes_total"), false, func(s *Sample) **float64 { return &s.BrokerTransmitBytesTotal }},
	{"connectionPendingPackets", FoldSum, named(always, "rabbitmq_connection_pending_packets"), false, func(s *Sample) **float64 { return &s.ConnectionPendingPackets }},
	{"connectionsOpenedTotal", FoldSum, named(always, "rabbitmq_connections_opened_total"), false, func(s *Sample) **float64 { return &s.ConnectionsOpenedTotal }},
	{"connectionsClosedTotal", FoldSum, named(always, "rabbitmq_connections_closed_total"), false, func(s *Sample) **float64 { return &s.ConnectionsClosedTotal }},
	{"channelsOpenedTotal", FoldSum, named(always, "rabbitmq_channels_opened_total"), false, func(s *Sample) **float64 { return &s.ChannelsOpenedTotal }},
	{"channelsClosedTotal", FoldSum, named(always, "rabbitmq_channels_closed_total"), false, func(s *Sample) **float64 { return &s.ChannelsClosedTotal }},
	{"connections", FoldSum, named(always, "rabbitmq_connections"), false, func(s *Sample) **float64 { return &s.Connections }},
	{"channels", FoldSum, named(always, "rabbitmq_channels"), false, func(s *Sample) **float64 { return &s.Channels }},
	{"consumers", FoldSum, named(always, "rabbitmq_consumers"), false, func(s *Sample) **float64 { return &s.Consumers }},
	{"queues", FoldSum, named(always, "rabbitmq_queues"), false, func(s *Sample) **float64 { return &s.Queues }},
	{"fileDescriptors", FoldSum, named(always, "rabbitmq_process_open_fds"), false, func(s *Sample) **float64 { return &s.FileDescriptors }},
	{"sockets", FoldSum, named("3.10–3.13", "rabbitmq_process_open_tcp_sockets"), false, func(s *Sample) **float64 { return &s.Sockets }},
	{"memoryAlarm", FoldMax, named(always, "rabbitmq_alarms_memory_used_watermark"), false, func(s *Sample) **float64 { return &s.MemoryAlarm }},
	{"diskAlarm", FoldMax, named(always, "rabbitmq_alarms_free_disk_space_watermark"), false, func(s *Sample) **float64 { return &s.DiskAlarm }},
	{"fileDescriptorAlarm", FoldMax, named("3.10–3.13", "rabbitmq_alarms_file_descriptor_limit"), false, func(s *Sample) **float64 { return &s.FileDescriptorAlarm }},
	{"runQueue", FoldSum, named(always, "erlang_vm_statistics_run_queues_length", "rabbitmq_erlang_scheduler_run_queue"), false, func(s *Sample) **float64 { return &s.RunQueue }},
	{"schedulers", FoldSum, named(always, "erlang_vm_schedulers_online"), false, func(s *Sample) **float64 { return &s.Schedulers }},
	{"gcRunsTotal", FoldSum, []SeriesName{
		{Name: "erlang_vm_statistics_garbage_collection_number_of_gcs_total", Versions: "4.3"},
		{Name: "erlang_vm_statistics_garbage_collection_number_of_gcs", Versions: "3.10"},
		{Name: "rabbitmq_erlang_gc_runs_total", Versions: always},
	}, false, func(s *Sample) **float64 { return &s.GCRunsTotal }},
	{"gcReclaimedBytesTotal", FoldSum, []SeriesName{
		{Name: "erlang_vm_statistics_garbage_collection_bytes_reclaimed_total", Versions: "4.3"},
		{Name: "erlang_vm_statistics_garbage_collection_bytes_reclaimed", Versions: "3.10"},
		{Name: "rabbitmq_erlang_gc_reclaimed_bytes_total", Versions: always},
	}, false, func(s *Sample) **float64 { return &s.GCReclaimedBytesTotal }},
	{"queueReductionsTotal", FoldSum, named(always, "rabbitmq_queue_process_reductions_total"), false, func(s *Sample) **float64 { return &s.QueueReductionsTotal }},
	{"hottestQueueReductionsTotal", FoldMax, []SeriesName{
		{Name: "rabbitmq_queue_process_reductions_total", Versions: always, Labels: map[string]string{"queue": "*"}},
	}, false, func(s *Sample) **float64 { return &s.HottestQueueReductionsTotal }},
	{"channelReductionsTotal", FoldSum, named(always, "rabbitmq_channel_process_reductions_total"), false, func(s *Sample) **float64 { return &s.ChannelReductionsTotal }},
	{"connectionReductionsTotal", FoldSum, named(always, "rabbitmq_connection_process_reductions_total"), false, func(s *Sample) **float64 { return &s.ConnectionReductionsTotal }},
	{"messagesReady", FoldSum, named(always, "rabbitmq_queue_messages_ready"), false, func(s *Sample) **float64 { return &s.MessagesReady }},
	{"messagesUnacked", FoldSum, named(always, "rabbitmq_queue_messages_unacked"), false, func(s *Sample) **float64 { return &s.MessagesUnacked }},
	{"messagesUnconfirmed", FoldSum, named(always, "rabbitmq_channel_messages_unconfirmed"), false, func(s *Sample) **float64 { return &s.MessagesUnconfirmed }},
	// Added up over queues, as /metrics has them, capacities mean nothing.
	{"consumerCapacityRatio", FoldMin, []SeriesName{
		{Name: "rabbitmq_queue_consumer_capacity", Versions: always, Labels: map[string]string{"queue": "*"}},
		{Name: "rabbitmq_queue_consumer_utilisation", Versions: always, Labels: map[string]string{"queue": "*"}},
	}, false, func(s *Sample) **float64 { return &s.ConsumerCapacityRatio }},
	{"receivedTotal", FoldSum, named(always, "rabbitmq_global_messages_received_total"), false, func(s *Sample) **float64 { return &s.ReceivedTotal }},
	{"confirmedTotal", FoldSum, named(always, "rabbitmq_global_messages_confirmed_total"), false, func(s *Sample) **float64 { return &s.ConfirmedTotal }},
	{"routedTotal", FoldSum, named(always, "rabbitmq_global_messages_routed_total"), false, func(s *Sample) **float64 { return &s.RoutedTotal }},
	{"deliveredTotal", FoldSum, named(always, "rabbitmq_global_messages_delivered_total"), false, func(s *Sample) **float64 { return &s.DeliveredTotal }},
	{"acknowledgedTotal", FoldSum, named(always, "rabbitmq_global_messages_acknowledged_total"), false, func(s *Sample) **float64 { return &s.AcknowledgedTotal }},
	{"redeliveredTotal", FoldSum, named(always, "rabbitmq_global_messages_redelivered_total"), false, func(s *Sample) **float64 { return &s.RedeliveredTotal }},
	{"unroutableTotal", FoldSum, named(always, "rabbitmq_global_messages_unroutable_dropped_total", "rabbitmq_global_messages_unroutable_returned_total"), true,
		func(s *Sample) **float64 { return &s.UnroutableTotal }},
	{"deadLetteredTotal", FoldSum, named(always, "rabbitmq_global_messages_dead_lettered_rejected_total", "rabbitmq_global_messages_dead_lettered_delivery_limit_total",
		"rabbitmq_global_messages_dead_lettered_maxlen_total", "rabbitmq_global_messages_dead_lettered_expired_total"), true,
		func(s *Sample) **float64 { return &s.DeadLetteredTotal }},
	// From 4.2 on the plain name is also that of Khepri, whose commits are no messages. Before, the sum over queues that /metrics
	// has is no latency, and 0 without quorum queues.
	{"raftCommitLatencySeconds", FoldMax, []SeriesName{
		{Name: "rabbitmq_raft_max_commit_latency_seconds", Versions: "4.2–4.3", Labels: map[string]string{"ra_system": "quorum_queues"}},
		{Name: "rabbitmq_raft_commit_latency_seconds", Versions: "4.2–4.3", Labels: map[string]string{"queue": "*"}},
		{Name: "rabbitmq_raft_entry_commit_latency_seconds", Versions: "3.10–4.1", Labels: map[string]string{"queue": "*"}},
	}, false, func(s *Sample) **float64 { return &s.RaftCommitLatencySeconds }},
	{"raftWrittenBytesTotal", FoldSum, []SeriesName{
		{Name: "rabbitmq_raft_bytes_written", Versions: "4.2–4.3", Labels: map[string]string{"ra_system": "quorum_queues", "module": "ra_log_wal"}},
	}, false, func(s *Sample) **float64 { return &s.RaftWrittenBytesTotal }},
}

// SeriesTable is where each field of Sample that Prometheus can fill comes from.
func SeriesTable() []Series { return slices.Clone(seriesTable) }

// DetailedFamilies are what to ask /metrics/detailed for, with a vhost, besides /metrics: the few series that are needed
// object by object.
var DetailedFamilies = []string{"queue_metrics", "queue_coarse_metrics", "queue_consumer_count", "ra_metrics"}

// ParseMetrics reads what /metrics, /metrics/per-object or /metrics/detailed of one node says, in the text format. Fields
// whose series are not there are nil. Node is set where rabbitmq_identity_info is there.
func ParseMetrics(text []byte) (Sample, error) {
	var s Sample
	families, err := parseFamilies(text)
	if err != nil {
		return s, err
	}
	idle := idleQueues(families)
	for i := range seriesTable {
		series := &seriesTable[i]
		var total *float64
		for _, name := range series.Names {
			v := name.fold(families[name.Name], series.Fold, idle)
			if v == nil {
				continue
			}
			if total != nil {
				*v += *total
			}
			total = v
			if !series.Add {
				break
			}
		}
		*series.into(&s) = total
	}
	s.Node = label(families["rabbitmq_identity_info"], "rabbitmq_node")
	return s, nil
}

// Build of a node: versions of RabbitMQ and Erlang, from its metrics; empty where they are not told.
func Build(text []byte) (rabbitmq, erlang string) {
	families, err := parseFamilies(text)
	if err != nil {
		return "", ""
	}
	info := families["rabbitmq_build_info"]
	return label(info, "rabbitmq_version"), label(info, "erlang_version")
}

func parseFamilies(text []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	plain := make(map[string]*dto.MetricFamily, len(families))
	for name, family := range families {
		if short, ok := strings.CutPrefix(name, "rabbitmq_detailed_"); ok {
			name = "rabbitmq_" + short
		}
		plain[name] = family
	}
	return plain, nil
}

// idleQueues have no consumers: their consumer capacity says nothing.
func idleQueues(families map[string]*dto.MetricFamily) map[string]bool {
	idle := map[string]bool{}
	family := families["rabbitmq_queue_consumers"]
	for _, m := range family.GetMetric() {
		if valueOf(m) == 0 {
			idle[labelOf(m, "vhost")+"\x00"+labelOf(m, "queue")] = true
		}
	}
	return idle
}

func (n SeriesName) fold(family *dto.MetricFamily, fold Fold, idle map[string]bool) *float64 {
	var total *float64
	for _, m := range family.GetMetric() {
		if !n.takes(m) || fold == FoldMin && idle[labelOf(m, "vhost")+"\x00"+labelOf(m, "queue")] {
			continue
		}
		v := valueOf(m)
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0): // how some say that they do not know
		case total == nil:
			total = &v
		case fold == FoldSum:
			*total += v
		case fold == FoldMax:
			*total = max(*total, v)
		case fold == FoldMin:
			*total = min(*total, v)
		}
	}
	return total
}

func (n SeriesName) takes(m *dto.Metric) bool {
	for name, want := range n.Labels {
		got := labelOf(m, name)
		if want == "*" && got == "" || want != "*" && got != want {
			return false
		}
	}
	return true
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

func labelOf(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

func label(family *dto.MetricFamily, name string) string {
	for _, m := range family.GetMetric() {
		return labelOf(m, name)
	}
	return ""
}

// Join adds to a sample what another source said of the same node at about the same time: what a has stays.
func Join(a, b Sample) Sample {
	a.join(&b)
	return a
}
