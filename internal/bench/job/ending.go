package job

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/warren-mq/warren/internal/bench/plan"
)

// EndingOf a run: what its pods said of themselves, and what Kubernetes says of the Job. made is nil when the run has no
// plan (any more), job when it is gone; why says then what happened.
func EndingOf(endings map[int]Ending, made *Plan, job *batchv1.Job, why string) plan.Ending {
	var out plan.Ending
	if made == nil {
		out.Failed = why + ", and nothing was handed back"
		return out
	}
	if job != nil {
		_, _, why = plan.Ended(job)
	}
	if why != "" {
		why = ": " + why
	}
	// A pod that failed knows why; one that is gone is why the others were told to stop.
	var failed, gone, stopped string
	for pod := range made.Pods {
		e, said := endings[pod]
		switch {
		case !said:
			gone = cmp.Or(gone, fmt.Sprintf("generator pod %d did not come to its end%s", pod, why))
		case e.Code == Refused:
			out.Refused = cmp.Or(out.Refused, e.Message)
		case e.Code == Failed:
			failed = cmp.Or(failed, e.Message)
		case e.Code == Stopped:
			stopped = cmp.Or(stopped, fmt.Sprintf("generator pod %d was told to stop%s", pod, why))
		}
	}
	out.Failed = cmp.Or(failed, gone, stopped)
	if made.Store != nil {
		out.Folder, out.StoreFault = storeOf(endings, made.Pods, out.Refused != "")
	}
	if out.Refused != "" {
		out.Failed = "" // the others had nobody to meet
	}
	return out
}

// storeOf is where the run is on its volume, and why it is not: the first pod makes the folder of what all have put there.
func storeOf(endings map[int]Ending, pods int, refused bool) (folder, fault string) {
	folder, fault = endings[0].Folder, endings[0].StoreFault
	for pod := range pods {
		if its := endings[pod].StoreFault; pod > 0 && its != "" {
			fault = fmt.Sprintf("generator pod %d: %s", pod, its)
		}
	}
	if folder == "" && fault == "" && !refused {
		fault = "generator pod 0 did not come so far"
	}
	return folder, fault
}
