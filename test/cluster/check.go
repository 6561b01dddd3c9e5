package cluster

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// bindWords are Erlang's words for the bind types.
var bindWords = map[string]string{
	"Unbound": "unbound", "NoSpread": "no_spread", "ThreadSpread": "thread_spread", "ProcessorSpread": "processor_spread",
	"Spread": "spread",
}

// CheckNode compares what a node says of itself with the WorkloadCluster's status.tuning and its CPU limit.
func CheckNode(object *v1alpha1.WorkloadCluster, n Node) error {
	tuning := map[string]string{}
	for _, value := range object.Status.Tuning {
		tuning[value.Name] = value.Value
	}
	var faults []error
	compare := func(name, got, want string) {
		if got != want {
			faults = append(faults, fmt.Errorf("node %s: %s is %s, wanted %s", n.Pod, name, got, want))
		}
	}
	limit := object.Spec.Resources.Limits.CPU
	if math.Abs(n.CPULimit-limit.AsApproximateFloat64()) > 0.001 {
		faults = append(faults, fmt.Errorf("node %s: the CPU limit of its control group is %g, wanted %s", n.Pod, n.CPULimit, limit.String()))
	}
	compare("schedulers", strconv.Itoa(n.Schedulers), tuning["schedulers"])
	compare("schedulers online", strconv.Itoa(n.Online), tuning["schedulers"])
	compare("scheduler bind type", n.BindType, bindWords[tuning["schedulerBindType"]])
	compare("memory alarm", strconv.FormatInt(n.MemoryLimit, 10), tuning["memoryHighWatermark"])
	compare("disk alarm", strconv.FormatInt(n.DiskFreeLimit, 10), tuning["diskFreeLimit"])
	return errors.Join(faults...)
}
