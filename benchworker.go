package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/apply"
	"github.com/warren-mq/warren/internal/bench"
	"github.com/warren-mq/warren/internal/bench/job"
	"github.com/warren-mq/warren/internal/broker"
	"github.com/warren-mq/warren/internal/load"
	"github.com/warren-mq/warren/internal/store"
)

func benchWorkerCommand() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:    "worker",
		Short:  "Be one of the pods of a Benchmark's run",
		Hidden: true,
		Long: `Be one of the pods of a Benchmark's run: read the plan that the operator wrote, share the load with the other pods, and
hand back what was measured in ConfigMaps that exist already. The operator starts it; people use "warren bench run".`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return runWorker(command, path) },
	}
	command.Flags().StringVar(&path, "plan", job.PlanPath, "file with the plan of the run")
	return command
}

func runWorker(command *cobra.Command, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p, err := job.DecodePlan(text)
	if err != nil {
		return err
	}
	number := 0
	if index := os.Getenv(job.EnvIndex); index != "" {
		if number, err = strconv.Atoi(index); err != nil || number < 0 || number >= p.Pods {
			return fmt.Errorf("%s is %q, and the run has %d pods", job.EnvIndex, index, p.Pods)
		}
	}
	kube, err := configMapClient()
	if err != nil {
		return err
	}
	m := mailbox{plan: p, pod: number, client: kube, writer: apply.Writer{Client: kube}, unstored: new(error)}
	if p.Store != nil {
		m.archive = &store.Archive{Root: storeRoot(), Store: *p.Store}
	}
	ctx := command.Context()
	failed := measure(ctx, command, m)
	ending := job.Ending{Code: job.Done}
	var refused unsafeError
	switch {
	case errors.As(failed, &refused):
		ending = job.Ending{Code: job.Refused, Message: refused.explain("set spec.allowProduction: true")}
	case failed != nil && ctx.Err() != nil:
		ending = job.Ending{Code: job.Stopped, Message: failed.Error()}
	case failed != nil && !onlyCleanupFailed(failed):
		ending = job.Ending{Code: job.Failed, Message: failed.Error()}
	}
	m.store(&ending)
	return errors.Join(failed, m.end(context.WithoutCancel(ctx), ending))
}

// onlyCleanupFailed: all was measured, and the operator sweeps what is left.
func onlyCleanupFailed(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	return ok && !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !errors.Is(e, load.ErrCleanupFailed) })
}

// measure makes this pod's part of all runs.
func measure(ctx context.Context, command *cobra.Command, m mailbox) error {
	p := m.plan
	at := place{uri: p.URI, management: p.Management}
	endpoint, err := at.endpoint()
	if err != nil {
		return err
	}
	username, password, err := at.credentials(endpoint)
	if err != nil {
		return err
	}
	m.fingerprint = p.Fingerprint
	m.fingerprint.CPUModel, m.fingerprint.Kernel, m.fingerprint.Generator = cpuModel(), kernelRelease(), version
	m.fingerprint.SharedHost = slices.Contains(p.BrokerHosts, os.Getenv(job.EnvHost))
	for _, s := range p.Scenarios {
		if err := enoughFiles(s); err != nil {
			return err
		}
	}
	w := load.Worker{
		Number: m.pod, Of: p.Pods, TenantID: p.RunID, Password: job.TenantPassword(p.RunID, password),
		Owner: username, Interval: 2 * time.Second, Endpoint: endpoint, Scenarios: p.Scenarios,
		Meet: m.meet, HandBack: m.handBack, OnProgress: newTeller(command.ErrOrStderr()).second,
	}
	if m.pod == 0 {
		if err := lead(ctx, command, at, endpoint, &m, &w); err != nil {
			return err
		}
		w.HandBack = m.handBack // with what the broker says of itself
	}
	return w.Do(ctx)
}

// lead does what only the first pod does before a run: remove what killed benchmarks left, refuse a cluster that must not
// be put under load, and look at the broker.
func lead(ctx context.Context, command *cobra.Command, at place, endpoint load.Endpoint, m *mailbox, w *load.Worker) error {
	p := m.plan
	api, err := at.connect(endpoint)
	if err != nil {
		return err
	}
	if found, err := load.Leftovers(ctx, api, time.Now(), load.Abandoned); err == nil {
		if _, err := load.Sweep(ctx, api, found); err != nil {
			fmt.Fprintln(command.ErrOrStderr(), "what a killed benchmark left behind is still there:", err)
		}
	}
	if err := (benchFlags{production: p.AllowProduction}).safe(ctx, api, p.Scenarios); err != nil {
		return err
	}
	overview, err := api.Overview(ctx)
	if err != nil {
		return err
	}
	m.fingerprint.BrokerVersion, m.fingerprint.ErlangVersion = overview.RabbitMQVersion, overview.ErlangVersion
	w.API, w.Policies = api, api
	cgroups, err := brokerCgroups(ctx, p)
	if err != nil {
		return err
	}
	w.Sources = func(vhost string) []load.Source {
		scraper, _ := api.connector.(broker.Scraper)
		sources := []load.Source{load.Management{API: api, VHost: vhost}, load.Prometheus{Scraper: scraper, URLs: p.Prometheus, VHost: vhost}}
		if cgroups != nil {
			sources = append(sources, cgroups)
		}
		return sources
	}
	return nil
}

// mailbox is the ConfigMaps in which the pods of a run meet and hand back.
type mailbox struct {
	plan        job.Plan
	pod         int
	client      client.Reader
	writer      apply.Writer
	fingerprint bench.Fingerprint
	// archive is the volume for results; nil without one. unstored is the first reason why a part is not on it.
	archive  *store.Archive
	unstored *error
}

// configMapClient can do nothing but read and write ConfigMaps, and asks the API server for nothing else.
func configMapClient() (client.Client, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	version := schema.GroupVersion{Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	mapper.Add(version.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
}

const (
	// lookEvery is how often a pod looks whether the others have arrived; meetLimit how long it waits for them.
	lookEvery = 200 * time.Millisecond
	meetLimit = 10 * time.Minute
	// handBackLimit is how long it is tried to hand something back.
	handBackLimit = 30 * time.Second
)

// meet says where this pod is, and waits until all others are there or further on.
func (m mailbox) meet(ctx context.Context, at load.Place) error {
	if m.plan.Pods == 1 {
		return nil
	}
	if err := m.write(ctx, m.plan.Control, map[string]string{job.ArrivalKey(m.pod): strconv.Itoa(at.Order())}, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, meetLimit, fmt.Errorf("the other pods did not come to %s of run %d within %s", at.Step, at.Run, meetLimit))
	defer cancel()
	for {
		var control corev1.ConfigMap
		err := m.client.Get(ctx, client.ObjectKey{Namespace: m.plan.Namespace, Name: m.plan.Control}, &control)
		if err == nil && m.allAt(control.Data, at.Order()) {
			return nil
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (m mailbox) allAt(arrivals map[string]string, order int) bool {
	for pod := range m.plan.Pods {
		there, err := strconv.Atoi(arrivals[job.ArrivalKey(pod)])
		if err != nil || there < order {
			return false
		}
	}
	return true
}

func (m mailbox) handBack(ctx context.Context, scenario int, part bench.Part, left map[string]int64) error {
	s := m.plan.Scenarios[scenario]
	whole := job.Part{Of: m.plan.Pods, Fingerprint: m.fingerprint, Part: part, Left: left}
	m.putPart(scenario, whole)
	packed, err := job.EncodePart(whole, s.Runs)
	if err != nil {
		return err
	}
	return m.write(ctx, m.plan.Parts[scenario], nil, map[string][]byte{job.PartKey(part.Run.Number, m.pod): packed})
}

func (m mailbox) end(ctx context.Context, ending job.Ending) error {
	text, err := json.Marshal(ending)
	if err != nil {
		return err
	}
	return m.write(ctx, m.plan.Control, map[string]string{job.EndingKey(m.pod): string(text)}, nil)
}

// storeRoot is where the volume is mounted.
func storeRoot() string { return firstText(os.Getenv(job.EnvStore), job.StorePath) }

// putPart keeps a part on the volume, whole. That it cannot ends no run: what was measured is handed back all the same.
func (m mailbox) putPart(scenario int, part job.Part) {
	if m.archive == nil {
		return
	}
	packed, err := job.EncodeWhole(part)
	if err == nil {
		err = m.archive.PutPart(scenario, job.PartKey(part.Part.Run.Number, m.pod), packed)
	}
	if err != nil && *m.unstored == nil {
		*m.unstored = err
	}
}

// store makes the run's folder on the volume, when all pods have put their parts there, and says in the ending what became of it.
func (m mailbox) store(ending *job.Ending) {
	if m.archive == nil || ending.Code == job.Refused {
		return
	}
	if *m.unstored != nil {
		ending.StoreFault = (*m.unstored).Error()
		return
	}
	if m.pod > 0 {
		return
	}
	folder, err := m.archive.Keep(m.plan.Scenarios, m.plan.Namespace+"/"+m.plan.Store.Benchmark, time.Now().UTC())
	if ending.Folder = folder; err != nil {
		ending.StoreFault = err.Error()
	}
	if folder == "" && err == nil {
		ending.StoreFault = "nothing was measured"
	}
}

// write tries again while the API server does not answer.
func (m mailbox) write(ctx context.Context, name string, data map[string]string, binary map[string][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, handBackLimit)
	defer cancel()
	for {
		err := m.writer.HandBack(ctx, m.plan.Namespace, name, data, binary)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("hand back into ConfigMap %s: %w", name, err)
		}
	}
}
