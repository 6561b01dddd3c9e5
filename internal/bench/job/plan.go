package job

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/bench"
)

// Plan is what the pods of a run read. It holds no secret.
type Plan struct {
	// RunID of the run; its vhost and user are named after it.
	RunID string `json:"runID"`
	// Pods that share the load.
	Pods int `json:"pods"`
	// Namespace of the ConfigMaps: Control, in which pods meet and say how they ended, and Parts, one for each scenario.
	Namespace string   `json:"namespace"`
	Control   string   `json:"control"`
	Parts     []string `json:"parts"`
	// URI for AMQP without credentials, as `warren bench --uri` takes it, Management API, and the Prometheus endpoints of all nodes.
	URI        string   `json:"uri"`
	Management string   `json:"management"`
	Prometheus []string `json:"prometheus"`
	// BrokerHosts are the Kubernetes nodes on which the broker runs.
	BrokerHosts []string `json:"brokerHosts,omitempty"`
	// AllowProduction as the spec has it.
	AllowProduction bool `json:"allowProduction,omitempty"`
	// Fingerprint as far as the operator knows it.
	Fingerprint bench.Fingerprint `json:"fingerprint"`
	Scenarios   []bench.Scenario  `json:"scenarios"`
	// Brokers are the pods of the broker whose control groups are sampled; none if they are not to be.
	Brokers []BrokerPod `json:"brokers,omitempty"`
	// Store says where the run is kept on the volume; nil without one.
	Store *Store `json:"store,omitempty"`
}

// BrokerPod is a pod of the broker, its container, and the Erlang name of its node.
type BrokerPod struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Node      string `json:"node"`
}

// Store says where a run is kept on a volume.
type Store struct {
	// Benchmark is the folder of all its runs, Folder that of this run in it.
	Benchmark string `json:"benchmark"`
	Folder    string `json:"folder"`
	// Limit of runs that are kept, this one included.
	Limit int `json:"limit"`
	// MaxRegression of the gate, for the report.
	MaxRegression float64 `json:"maxRegression,omitempty"`
}

// KeyPlan of the ConfigMap with the plan.
const KeyPlan = "plan.json"

// DecodePlan reads a plan.
func DecodePlan(text []byte) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return Plan{}, fmt.Errorf("the plan of the run: %w", err)
	}
	if p.RunID == "" || p.Pods < 1 || len(p.Scenarios) == 0 || len(p.Parts) != len(p.Scenarios) {
		return Plan{}, fmt.Errorf("the plan of the run is incomplete")
	}
	return p, nil
}

// TenantPassword of the run's user. Whoever has the administrator's password can tell it, and nobody else, so that it need
// not be kept anywhere for the pods to agree on it.
func TenantPassword(runID, adminPassword string) string {
	mac := hmac.New(sha256.New, []byte(adminPassword))
	mac.Write([]byte("warren bench " + runID))
	return hex.EncodeToString(mac.Sum(nil))
}

// Ending says how a pod ended.
type Ending struct {
	// Code is Done, Refused, Failed or Stopped.
	Code string `json:"code"`
	// Message says why, without secrets.
	Message string `json:"message,omitempty"`
	// Folder in which the run is kept on the volume, and why it is not; both are "" where nothing is to be kept.
	Folder     string `json:"folder,omitempty"`
	StoreFault string `json:"storeFault,omitempty"`
}

// The codes of endings.
const (
	Done    = "Done"
	Refused = "Refused"
	Failed  = "Failed"
	// Stopped: it was told to end, because another pod did or the Job was deleted.
	Stopped = "Stopped"
)

// EndingKey of a pod in the control ConfigMap.
func EndingKey(pod int) string { return fmt.Sprintf("ending-%d", pod) }

// ArrivalKey of a pod in the control ConfigMap: at which step it is, and since when.
func ArrivalKey(pod int) string { return fmt.Sprintf("arrival-%d", pod) }

// EndingsOf a control ConfigMap, by pod.
func EndingsOf(data map[string]string, pods int) map[int]Ending {
	out := map[int]Ending{}
	for pod := range pods {
		var e Ending
		if text, found := data[EndingKey(pod)]; found && json.Unmarshal([]byte(text), &e) == nil {
			out[pod] = e
		}
	}
	return out
}

// Part is what one pod hands back of one run of a scenario.
type Part struct {
	// Of is how many pods shared the run.
	Of int `json:"of"`
	// Fingerprint as the pod knows it.
	Fingerprint bench.Fingerprint `json:"fingerprint"`
	Part        bench.Part        `json:"part"`
	// Left in the queues at the end, by the broker's count.
	Left map[string]int64 `json:"left,omitempty"`
}

// PartKey of what a pod hands back, in the ConfigMap of the scenario.
func PartKey(run, pod int) string { return fmt.Sprintf("run-%02d-pod-%d", run, pod) }

// mostBytes that all parts of a scenario may have together: a ConfigMap has at most 1 MiB.
const mostBytes = 950 << 10

// ErrTooLarge says that a part does not fit, even without what only charts need.
var ErrTooLarge = fmt.Errorf("the figures of a run do not fit into a ConfigMap: use fewer queues, runs or pods")

// EncodeWhole writes all of a part, for a volume.
func EncodeWhole(p Part) ([]byte, error) { return pack(p) }

// EncodePart writes a part so small that all parts of the scenario fit into one ConfigMap: it leaves out the histograms of
// single seconds, then the broker's samples but every tenth, when it must.
func EncodePart(p Part, runs int) ([]byte, error) {
	most := mostBytes / (max(runs, 1) * max(p.Of, 1))
	for _, thin := range []func(*bench.Run){
		func(*bench.Run) {},
		func(r *bench.Run) {
			r.Seconds = slices.Clone(r.Seconds)
			for i := range r.Seconds {
				r.Seconds[i].Latency = nil
			}
		},
		func(r *bench.Run) {
			var few []bench.Sample
			for i, s := range r.Broker {
				if i%10 == 0 {
					few = append(few, s)
				}
			}
			r.Broker = few
		},
		func(r *bench.Run) { r.Broker, r.Events = nil, r.Events[:min(len(r.Events), 20)] },
	} {
		thin(&p.Part.Run)
		packed, err := pack(p)
		if err != nil {
			return nil, err
		}
		if len(packed) <= most {
			return packed, nil
		}
	}
	return nil, ErrTooLarge
}

func pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// mostUnpacked bounds what a part may unpack to: whoever may write the ConfigMap is not trusted with the operator's memory.
const mostUnpacked = 64 << 20

func unpack(packed []byte, into any) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, mostUnpacked))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Assemble makes the result of one scenario of what the pods handed back. Runs of which a part is missing or cannot be used
// are left out, and faults say so.
func Assemble(s bench.Scenario, data map[string][]byte) (result bench.Result, faults []string) {
	result = bench.Result{SchemaVersion: bench.SchemaVersion, Scenario: s}
	byRun := map[string]map[string][]byte{}
	for key, packed := range data {
		run, _, _ := strings.Cut(key, "-pod-")
		if byRun[run] == nil {
			byRun[run] = map[string][]byte{}
		}
		byRun[run][key] = packed
	}
	for _, name := range slices.Sorted(maps.Keys(byRun)) {
		run, fingerprint, err := merge(byRun[name])
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s of scenario %s: %v", name, s.Name, err))
			continue
		}
		bench.Finish(&run, s)
		if len(result.Runs) == 0 {
			result.Started, result.Fingerprint = run.Started, fingerprint
			result.Fingerprint.QueueType = s.Queues.Type
		}
		result.Runs = append(result.Runs, run)
	}
	result.Summary = bench.Summarize(result.Runs)
	return result, faults
}

func merge(files map[string][]byte) (bench.Run, bench.Fingerprint, error) {
	var (
		parts       []bench.Part
		fingerprint bench.Fingerprint
		of          int
		left        map[string]int64
	)
	for i, key := range slices.Sorted(maps.Keys(files)) {
		var p Part
		if err := unpack(files[key], &p); err != nil {
			return bench.Run{}, fingerprint, fmt.Errorf("%s cannot be read: %w", key, err)
		}
		if i == 0 { // the first pod knows most: it looks at the broker, and at the queues before it deletes them
			fingerprint, left = p.Fingerprint, p.Left
		}
		fingerprint.SharedHost = fingerprint.SharedHost || p.Fingerprint.SharedHost
		of = max(of, p.Of)
		parts = append(parts, p.Part)
	}
	if len(parts) < of {
		return bench.Run{}, fingerprint, fmt.Errorf("%d of %d pods handed nothing back", of-len(parts), of)
	}
	run, err := bench.MergeParts(parts, left)
	return run, fingerprint, err
}

// Keys of the ConfigMap with the result of one scenario.
const (
	// KeyResult is the whole result, as warren bench compare reads it, packed by gzip.
	KeyResult = "result.json.gz"
	// KeyCompact is the result without what only charts need.
	KeyCompact = "compact.json"
)

// EncodeResult writes the data of the ConfigMap of a result.
func EncodeResult(r bench.Result) (data map[string]string, binary map[string][]byte, err error) {
	compact, err := bench.EncodeResult(r.Compact())
	if err != nil {
		return nil, nil, err
	}
	packed, err := pack(r)
	if err != nil {
		return nil, nil, err
	}
	data, binary = map[string]string{KeyCompact: string(compact)}, map[string][]byte{KeyResult: packed}
	if len(compact)+len(packed) > mostBytes {
		delete(binary, KeyResult) // the figures are worth more than their charts
	}
	return data, binary, nil
}
