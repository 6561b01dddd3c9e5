package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/schedule"
)

var noon = time.Date(2027, 3, 3, 12, 0, 0, 0, time.UTC) // a Wednesday

func cluster(edit ...func(*v1alpha1.WorkloadCluster)) *v1alpha1.WorkloadCluster {
	c := &v1alpha1.WorkloadCluster{ObjectMeta: metav1.ObjectMeta{Name: "runtime", UID: "c1"}}
	c.Status.Version = "4.3.6"
	c.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"},
		{Type: v1alpha1.ConditionAlarmsClear, Status: metav1.ConditionTrue, Reason: "AsExpected"},
	}
	for _, f := range edit {
		f(c)
	}
	return c
}

func condition(name string, status metav1.ConditionStatus, reason string) func(*v1alpha1.WorkloadCluster) {
	return func(c *v1alpha1.WorkloadCluster) {
		for i := range c.Status.Conditions {
			if c.Status.Conditions[i].Type == name {
				c.Status.Conditions[i].Status, c.Status.Conditions[i].Reason = status, reason
			}
		}
	}
}

// ran is a Benchmark whose first run is over.
func ran(edit ...func(*v1alpha1.Benchmark)) *v1alpha1.Benchmark {
	b := &v1alpha1.Benchmark{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b1"}}
	b.Spec.ClusterRef.Name = "runtime"
	b.Status.Started = 1
	b.Status.Target = FactsOf(cluster(), nil)
	for _, f := range edit {
		f(b)
	}
	return b
}

func fresh(b *v1alpha1.Benchmark)    { b.Status = v1alpha1.BenchmarkStatus{} }
func onChange(b *v1alpha1.Benchmark) { b.Spec.Trigger.OnChange = true }
func nightly(b *v1alpha1.Benchmark)  { b.Spec.Trigger.Cron = "0 4 * * *" }
func nextAt(at time.Time) func(*v1alpha1.Benchmark) {
	return func(b *v1alpha1.Benchmark) { b.Status.NextRun = &metav1.Time{Time: at} }
}

func asked(value, acted string) func(*v1alpha1.Benchmark) {
	return func(b *v1alpha1.Benchmark) {
		b.Annotations, b.Status.Request = map[string]string{v1alpha1.AnnotationRun: value}, acted
	}
}

func active(step v1alpha1.RunStep) func(*v1alpha1.Benchmark) {
	return func(b *v1alpha1.Benchmark) {
		b.Status.Active = &v1alpha1.ActiveRun{ID: RunID("b1", 1), ClusterUID: "c1", Number: 1, Step: step}
	}
}

func changed(c *v1alpha1.WorkloadCluster) { c.Status.Version = "4.3.7" }

func since(ago time.Duration) func(*v1alpha1.Benchmark) {
	return func(b *v1alpha1.Benchmark) {
		b.Status.Pending = &v1alpha1.PendingChange{Change: "version: 4.3.6 → 4.3.7", Since: metav1.NewTime(noon.Add(-ago))}
	}
}

func jobWith(conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{Status: batchv1.JobStatus{Conditions: conditions}}
}

func pod(phase corev1.PodPhase, deletedAgo time.Duration) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b-0"}, Status: corev1.PodStatus{Phase: phase}}
	if deletedAgo > 0 {
		p.DeletionTimestamp = &metav1.Time{Time: noon.Add(-deletedAgo)}
	}
	return p
}

func TestNext(t *testing.T) {
	good := Observed{Cluster: cluster(), Image: "warren"}
	with := func(f func(*Observed)) Observed {
		o := good
		f(&o)
		return o
	}
	seen := func(edit ...func(*v1alpha1.WorkloadCluster)) Observed {
		return with(func(o *Observed) { o.Cluster = cluster(edit...) })
	}
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}
	going := jobWith(failed)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, c := range map[string]struct {
		b      *v1alpha1.Benchmark
		o      Observed
		verb   Verb
		reason string
		says   string
	}{
		"a new one runs":                      {ran(fresh), good, Start, v1alpha1.ReasonRunActive, "is new"},
		"nothing is due":                      {ran(), good, Wait, v1alpha1.ReasonIdle, ""},
		"a change that nobody asked about":    {ran(), seen(changed), Wait, v1alpha1.ReasonIdle, ""},
		"a request":                           {ran(asked("2", "1")), good, Start, v1alpha1.ReasonRunActive, `"2"`},
		"a request that was acted upon":       {ran(asked("2", "2")), good, Wait, v1alpha1.ReasonIdle, ""},
		"a fault of the spec":                 {ran(fresh), with(func(o *Observed) { o.Faults = []string{"bad"} }), Wait, v1alpha1.ReasonInvalidSpec, ""},
		"no image":                            {ran(fresh), with(func(o *Observed) { o.Image = "" }), Wait, v1alpha1.ReasonNoImage, "--image"},
		"paused":                              {ran(fresh, func(b *v1alpha1.Benchmark) { b.Spec.Paused = true }), good, Wait, v1alpha1.ReasonPaused, ""},
		"no cluster":                          {ran(fresh), with(func(o *Observed) { o.Cluster = nil }), Wait, v1alpha1.ReasonClusterNotFound, ""},
		"an alarm":                            {ran(fresh), seen(condition("AlarmsClear", "False", "Alarm"), condition("Ready", "False", "Alarm")), Wait, v1alpha1.ReasonAlarm, ""},
		"a cluster that is not ready":         {ran(fresh), seen(condition("Ready", "False", "NodeDown")), Wait, v1alpha1.ReasonClusterNotReady, "NodeDown"},
		"alarms that are unknown":             {ran(fresh), seen(condition("AlarmsClear", "Unknown", "Unreachable")), Wait, v1alpha1.ReasonClusterNotReady, ""},
		"a cluster that said nothing yet":     {ran(fresh), seen(func(c *v1alpha1.WorkloadCluster) { c.Status.Conditions = nil }), Wait, v1alpha1.ReasonClusterNotReady, ""},
		"another one runs":                    {ran(fresh), with(func(o *Observed) { o.Busy = "other" }), Wait, v1alpha1.ReasonQueued, "other"},
		"a change is seen first":              {ran(onChange), seen(changed), Wait, v1alpha1.ReasonChangeSettling, "4.3.6 → 4.3.7"},
		"a change settles":                    {ran(onChange, since(59*time.Second)), seen(changed), Wait, v1alpha1.ReasonChangeSettling, ""},
		"a change has settled":                {ran(onChange, since(time.Minute)), seen(changed), Start, v1alpha1.ReasonRunActive, "4.3.6 → 4.3.7"},
		"a change was taken back":             {ran(onChange, since(time.Minute)), good, Wait, v1alpha1.ReasonIdle, ""},
		"a change of a change settles anew":   {ran(onChange, since(time.Minute)), seen(func(c *v1alpha1.WorkloadCluster) { c.Status.Version = "4.3.8" }), Wait, v1alpha1.ReasonChangeSettling, "4.3.8"},
		"a restart makes no change":           {ran(onChange), seen(condition("Ready", "False", "NodeDown"), func(c *v1alpha1.WorkloadCluster) { c.Status.Version = "" }), Wait, v1alpha1.ReasonIdle, ""},
		"a time that is long gone":            {ran(nightly, nextAt(noon.Add(-8*time.Hour))), good, Wait, v1alpha1.ReasonIdle, ""},
		"launch":                              {ran(active(v1alpha1.RunStarting)), good, Launch, v1alpha1.ReasonRunActive, ""},
		"launch although paused":              {ran(active(v1alpha1.RunStarting), func(b *v1alpha1.Benchmark) { b.Spec.Paused = true }), good, Launch, v1alpha1.ReasonRunActive, ""},
		"launch on another cluster":           {ran(active(v1alpha1.RunStarting)), seen(func(c *v1alpha1.WorkloadCluster) { c.UID = "c2" }), Collect, v1alpha1.ReasonClusterNotFound, ""},
		"running":                             {ran(active(v1alpha1.RunRunning)), with(func(o *Observed) { o.Job = jobWith() }), Wait, v1alpha1.ReasonRunActive, ""},
		"running, and requested again":        {ran(active(v1alpha1.RunRunning), asked("2", "1")), with(func(o *Observed) { o.Job = jobWith() }), Wait, v1alpha1.ReasonRunActive, ""},
		"ended":                               {ran(active(v1alpha1.RunRunning)), with(func(o *Observed) { o.Job = jobWith(failed) }), Collect, v1alpha1.ReasonRunActive, ""},
		"the Job was deleted":                 {ran(active(v1alpha1.RunRunning)), good, Collect, v1alpha1.ReasonRunActive, "gone"},
		"first the Job goes":                  {ran(active(v1alpha1.RunCleaningUp)), with(func(o *Observed) { o.Job = jobWith(failed) }), Stop, v1alpha1.ReasonCleaningUp, ""},
		"then its pods":                       {ran(active(v1alpha1.RunCleaningUp)), with(func(o *Observed) { o.Job, o.Pods = going, []corev1.Pod{pod(corev1.PodRunning, time.Second)} }), Wait, v1alpha1.ReasonCleaningUp, "b-0"},
		"pods that have ended may stay":       {ran(active(v1alpha1.RunCleaningUp)), with(func(o *Observed) { o.Pods = []corev1.Pod{pod(corev1.PodFailed, 0)} }), CleanUp, v1alpha1.ReasonCleaningUp, ""},
		"a pod on a node that is lost may":    {ran(active(v1alpha1.RunCleaningUp)), with(func(o *Observed) { o.Pods = []corev1.Pod{pod(corev1.PodRunning, 6*time.Minute)} }), CleanUp, v1alpha1.ReasonCleaningUp, ""},
		"cleaning up although there is fault": {ran(active(v1alpha1.RunCleaningUp)), with(func(o *Observed) { o.Faults = []string{"bad"} }), CleanUp, v1alpha1.ReasonCleaningUp, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Next(c.b, c.o, noon)
			if d.Verb != c.verb || d.Reason != c.reason || !strings.Contains(d.Message, c.says) {
				t.Errorf("got %s, %s: %q; want %s, %s: …%s…", d.Verb, d.Reason, d.Message, c.verb, c.reason, c.says)
			}
			if (d.Run != nil) != (d.Verb == Start) {
				t.Errorf("run %+v with %s", d.Run, d.Verb)
			}
		})
	}
}

func TestByClock(t *testing.T) {
	at := func(day, hour, minute int) time.Time { return time.Date(2027, 3, day, hour, minute, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		cron          string
		recorded, now time.Time
		due           bool
		next          time.Time
	}{
		"none":                            {"", time.Time{}, at(3, 12, 0), false, time.Time{}},
		"nothing is recorded yet":         {"0 4 * * *", time.Time{}, at(3, 4, 0), false, at(4, 4, 0)},
		"before":                          {"0 4 * * *", at(4, 4, 0), at(4, 3, 59), false, at(4, 4, 0)},
		"at":                              {"0 4 * * *", at(4, 4, 0), at(4, 4, 0), true, at(4, 4, 0)},
		"within the hour":                 {"0 4 * * *", at(4, 4, 0), at(4, 5, 0), true, at(4, 4, 0)},
		"an hour too late":                {"0 4 * * *", at(4, 4, 0), at(4, 5, 1), false, at(5, 4, 0)},
		"days too late":                   {"0 4 * * *", at(4, 4, 0), at(9, 4, 30), true, at(9, 4, 0)},
		"many were missed, one run":       {"*/10 * * * *", at(3, 4, 0), at(3, 12, 5), true, at(3, 12, 0)},
		"the schedule was changed":        {"0 5 * * *", at(4, 4, 0), at(4, 4, 0), false, at(4, 5, 0)},
		"changed to a time that was just": {"30 3 * * *", at(4, 4, 0), at(4, 4, 0), false, at(5, 3, 30)},
	} {
		t.Run(name, func(t *testing.T) {
			times, err := schedule.Parse(c.cron)
			if err != nil {
				t.Fatal(err)
			}
			due, next := byClock(times, c.recorded, c.now)
			if due != c.due || !next.Equal(c.next) {
				t.Errorf("due %v, next %s; want %v, %s", due, next, c.due, c.next)
			}
		})
	}
	for _, bad := range []string{"x", "0 4 * *", "@daily", "@every 1h", "TZ=Europe/Berlin 0 4 * * *", "0 0 31 2 *", "61 * * * *"} {
		if times, err := schedule.Parse(bad); err == nil {
			t.Errorf("%q is accepted: %v", bad, times)
		}
	}
}

// A run by the clock starts once, and the next one is the next time after it.
func TestStartByTheClock(t *testing.T) {
	four := time.Date(2027, 3, 3, 4, 0, 0, 0, time.UTC)
	b := ran(nightly, nextAt(four))
	d := Next(b, Observed{Cluster: cluster(), Image: "warren"}, four.Add(10*time.Second))
	if d.Verb != Start || d.Run.Trigger != v1alpha1.TriggerSchedule || !d.NextRun.Time.Equal(four.AddDate(0, 0, 1)) {
		t.Fatalf("got %+v, run %+v", d, d.Run)
	}
	if want := RunID("b1", 2); d.Run.ID != want || len(want) != 32 || d.Run.Number != 2 || d.Run.ClusterUID != "c1" {
		t.Errorf("run %+v", d.Run)
	}
}

func TestChanges(t *testing.T) {
	before := FactsOf(cluster(), nil)
	policy := v1alpha1.QueuePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	policy.Spec.Replication.Mode = v1alpha1.ReplicationNone
	leaving := *policy.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, c := range map[string]struct {
		cluster  *v1alpha1.WorkloadCluster
		policies []v1alpha1.QueuePolicy
		says     string
	}{
		"none":         {cluster(), nil, ""},
		"version":      {cluster(changed), nil, "version: 4.3.6 → 4.3.7"},
		"version gone": {cluster(func(c *v1alpha1.WorkloadCluster) { c.Status.Version = "" }), nil, "version: 4.3.6 → none"},
		"schedulers": {cluster(func(c *v1alpha1.WorkloadCluster) {
			c.Status.Tuning = []v1alpha1.TunedValue{{Name: "schedulers", Value: "8"}}
		}), nil, "tuning.schedulers: none → 8"},
		"a policy":         {cluster(), []v1alpha1.QueuePolicy{policy}, "policy.p: none → None ("},
		"many policies":    {cluster(), slices.Repeat([]v1alpha1.QueuePolicy{policy}, 21), "policies: none → 21 ("},
		"a policy that is": {cluster(), []v1alpha1.QueuePolicy{leaving}, ""},
		"what a node says": {cluster(func(c *v1alpha1.WorkloadCluster) { c.Status.Schedulers, c.Status.Memory = "8, 4", "51%" }), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Changes(before, FactsOf(c.cluster, c.policies))
			if !strings.HasPrefix(got, c.says) || c.says == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.says)
			}
		})
	}
}

func TestDepart(t *testing.T) {
	leavingSince := func(ago time.Duration) func(*v1alpha1.Benchmark) {
		return func(b *v1alpha1.Benchmark) { b.DeletionTimestamp = &metav1.Time{Time: noon.Add(-ago)} }
	}
	orphan := func(b *v1alpha1.Benchmark) { b.Annotations = map[string]string{v1alpha1.AnnotationOrphan: "true"} }
	here, gone := Observed{Cluster: cluster()}, Observed{}
	running := Observed{Cluster: cluster(), Job: jobWith()}
	for name, c := range map[string]struct {
		b               *v1alpha1.Benchmark
		o               Observed
		verb            Verb
		letGo, orphaned bool
	}{
		"idle":               {ran(leavingSince(0)), here, Wait, true, false},
		"the cluster is too": {ran(leavingSince(0), active(v1alpha1.RunRunning)), gone, Wait, true, false},
		"asked to":           {ran(leavingSince(0), active(v1alpha1.RunRunning), orphan), here, Wait, true, true},
		"a Job":              {ran(leavingSince(0), active(v1alpha1.RunRunning)), running, Stop, false, false},
		"nothing but broker": {ran(leavingSince(0), active(v1alpha1.RunStarting)), here, CleanUp, false, false},
		"after long":         {ran(leavingSince(11*time.Minute), active(v1alpha1.RunRunning)), running, CleanUp, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, letGo, orphaned := Depart(c.b, c.o, noon)
			if d.Verb != c.verb || letGo != c.letGo || orphaned != c.orphaned {
				t.Errorf("got %s, %v, %v", d.Verb, letGo, orphaned)
			}
		})
	}
}

// Only what has the run's name and the tag is the run's.
func TestLeftovers(t *testing.T) {
	id := RunID("b1", 1)
	name, tag := TenantName(id), []string{TenantTag}
	for what, c := range map[string]struct {
		vhosts      []broker.VHost
		users       []broker.User
		vhost, user bool
	}{
		"nothing":            {nil, nil, false, false},
		"both":               {[]broker.VHost{{Name: name, Tags: tag}}, []broker.User{{Name: name, Tags: tag}}, true, true},
		"a name without tag": {[]broker.VHost{{Name: name}}, []broker.User{{Name: name, Tags: []string{"administrator"}}}, false, false},
		"a tag without name": {[]broker.VHost{{Name: "bench-report", Tags: tag}}, []broker.User{{Name: "app", Tags: tag}}, false, false},
		"another run":        {[]broker.VHost{{Name: TenantName(RunID("b1", 2)), Tags: tag}}, nil, false, false},
		"a longer name":      {[]broker.VHost{{Name: name + "0", Tags: tag}}, []broker.User{{Name: name + "-x", Tags: tag}}, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			if vhost, user := Leftovers(id, c.vhosts, c.users); vhost != c.vhost || user != c.user {
				t.Errorf("got %v, %v", vhost, user)
			}
		})
	}
}

// What keeps a Benchmark from being run at all is said with the way out, and starts nothing.
func TestUnfit(t *testing.T) {
	claim := func(modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes}}
	}
	going, lost := claim(corev1.ReadWriteMany), claim(corev1.ReadWriteMany)
	going.DeletionTimestamp, lost.Status.Phase = &metav1.Time{Time: noon}, corev1.ClaimLost
	stored := func(pods int32) func(*v1alpha1.Benchmark) {
		return func(b *v1alpha1.Benchmark) {
			b.Spec.Generator.Pods = pods
			b.Spec.History.VolumeClaimRef = &v1alpha1.VolumeClaimReference{Name: "results"}
		}
	}
	cgroups := func(b *v1alpha1.Benchmark) { b.Spec.Generator.BrokerCgroups = true }
	good := Observed{Cluster: cluster(), Image: "warren"}
	with := func(claim *corev1.PersistentVolumeClaim) Observed { o := good; o.Claim = claim; return o }
	for name, c := range map[string]struct {
		b      *v1alpha1.Benchmark
		o      Observed
		reason string
		says   string
	}{
		"fit":                      {ran(), good, "", ""},
		"faults":                   {ran(), Observed{Image: "warren", Faults: []string{"a", "b"}}, v1alpha1.ReasonInvalidSpec, "a; b"},
		"no image":                 {ran(), Observed{}, v1alpha1.ReasonNoImage, "--image"},
		"no claim":                 {ran(stored(1)), good, v1alpha1.ReasonClaimNotFound, "results of spec.history.volumeClaimRef does not exist"},
		"a claim that goes":        {ran(stored(1)), with(going), v1alpha1.ReasonClaimNotFound, "being deleted"},
		"a claim without a volume": {ran(stored(1)), with(lost), v1alpha1.ReasonClaimNotFound, "lost its volume"},
		"one pod":                  {ran(stored(1)), with(claim(corev1.ReadWriteOnce)), "", ""},
		"two pods":                 {ran(stored(2)), with(claim(corev1.ReadWriteOnce)), v1alpha1.ReasonClaimNotShared, "ReadWriteMany"},
		"two pods that share":      {ran(stored(2)), with(claim(corev1.ReadWriteOnce, corev1.ReadWriteMany)), "", ""},
		"a claim that none names":  {ran(), with(going), "", ""},
		"control groups":           {ran(cgroups), good, v1alpha1.ReasonBrokerCgroupsNotAllowed, "benchmark.brokerCgroups=true"},
		"control groups, allowed":  {ran(cgroups), Observed{Cluster: cluster(), Image: "warren", MayExec: true}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := Unfit(c.b, c.o)
			if reason != c.reason || !strings.Contains(message, c.says) {
				t.Errorf("got %q: %s", reason, message)
			}
			due := c.b.DeepCopy()
			fresh(due)
			o := c.o
			o.Cluster = cluster()
			if d := Next(due, o, noon); (d.Verb == Start) != (c.reason == "") || c.reason != "" && d.Reason != c.reason {
				t.Errorf("decided %+v", d)
			}
		})
	}
}

// Folders of runs sort by time, whatever the numbers of runs of a Benchmark that was made anew.
func TestFolder(t *testing.T) {
	run := v1alpha1.ActiveRun{ID: RunID("b1", 1), Number: 7, Started: metav1.NewTime(noon.In(time.FixedZone("east", 3600)))}
	if got := Folder(run); got != "20270303-120000-"+run.ID[:8] {
		t.Errorf("got %s", got)
	}
}
