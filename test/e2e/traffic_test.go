//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/cluster"
)

// traffic publishes confirmed messages to a queue and consumes them, over as many connections as the cluster's restarts
// make necessary, and counts what was confirmed and what arrived.
type traffic struct {
	rabbit *cluster.Rabbit
	queue  string

	mu                  sync.Mutex
	published           int
	confirmed, returned map[int]bool
	arrived             map[int]int
	connections         int
	lastError           error
	lastConfirm         time.Time
	pause               time.Duration // longest between two confirms

	stopPublishing, stopConsuming context.CancelFunc
	publishing, consuming         sync.WaitGroup
}

const (
	// batch messages are in flight at once, pace apart.
	batch = 10
	pace  = 100 * time.Millisecond
)

func startTraffic(t *testing.T, r *cluster.Rabbit, queue string) *traffic {
	t.Helper()
	f := &traffic{rabbit: r, queue: queue, confirmed: map[int]bool{}, returned: map[int]bool{}, arrived: map[int]int{}}
	var publishing, consuming context.Context
	publishing, f.stopPublishing = context.WithCancel(t.Context())
	consuming, f.stopConsuming = context.WithCancel(t.Context())
	f.publishing.Go(func() { f.repeat(publishing, f.publish) })
	f.consuming.Go(func() { f.repeat(consuming, f.consume) })
	eventually(t, time.Minute, "traffic flows", func(context.Context) (string, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.arrived) == 0 {
			return fmt.Sprintf("nothing has arrived yet: %v", f.lastError), nil
		}
		return "", nil
	})
	return f
}

// repeat does something over a connection of its own, and again over another one when it fails.
func (f *traffic) repeat(ctx context.Context, do func(context.Context, *amqp.Channel) error) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := f.once(ctx, do)
		f.mu.Lock()
		f.lastError = err
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (f *traffic) once(ctx context.Context, do func(context.Context, *amqp.Channel) error) error {
	connection, err := f.rabbit.AMQP(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	defer connection.Close()
	f.mu.Lock()
	f.connections++
	f.mu.Unlock()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	return do(ctx, channel)
}

func (f *traffic) publish(ctx context.Context, channel *amqp.Channel) error {
	if err := channel.Confirm(false); err != nil {
		return err
	}
	returns := channel.NotifyReturn(make(chan amqp.Return))
	f.publishing.Go(func() {
		for r := range returns { // before its confirm: the message reached no queue
			n, _ := strconv.Atoi(r.MessageId)
			f.mu.Lock()
			f.returned[n] = true
			f.mu.Unlock()
		}
	})
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		if err := f.publishBatch(channel); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (f *traffic) publishBatch(channel *amqp.Channel) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pending := map[int]*amqp.DeferredConfirmation{}
	for range batch {
		f.mu.Lock()
		f.published++
		n := f.published
		f.mu.Unlock()
		confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", f.queue, true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: strconv.Itoa(n), Body: fmt.Appendf(nil, "message %d", n),
		})
		if err != nil {
			return err
		}
		pending[n] = confirm
	}
	for n, confirm := range pending {
		ok, err := confirm.WaitContext(ctx)
		if err != nil {
			return err
		}
		if ok {
			f.confirm(n, time.Now())
		}
	}
	return nil
}

func (f *traffic) confirm(n int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmed[n] = true
	if !f.lastConfirm.IsZero() {
		f.pause = max(f.pause, now.Sub(f.lastConfirm))
	}
	f.lastConfirm = now
}

// longestPause is the longest time between two confirms so far; the next one begins anew.
func (f *traffic) longestPause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest := max(f.pause, time.Since(f.lastConfirm))
	f.pause = 0
	return longest
}

func (f *traffic) consume(ctx context.Context, channel *amqp.Channel) error {
	if err := channel.Qos(100, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.ConsumeWithContext(ctx, f.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		n, err := strconv.Atoi(d.MessageId)
		if err != nil {
			return fmt.Errorf("message without a number: %q", d.MessageId)
		}
		f.mu.Lock()
		f.arrived[n]++
		f.mu.Unlock()
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// finish stops publishing, waits for what was confirmed, and fails for each message that was confirmed and is lost.
func (f *traffic) finish(t *testing.T) {
	t.Helper()
	f.stopPublishing()
	f.publishing.Wait()
	err := cluster.Wait(t.Context(), time.Minute, func(context.Context) (string, error) { return f.lost(), nil })
	f.stopConsuming()
	f.consuming.Wait()
	t.Logf("%s: %d published, %d confirmed, %d returned, %d arrived, %d more than once, over %d connections",
		f.queue, f.published, len(f.confirmed), len(f.returned), len(f.arrived), f.repeated(), f.connections)
	if err != nil {
		t.Errorf("confirmed messages of %s are lost: %v (last error of a client: %v)", f.queue, err, f.lastError)
	}
	if len(f.confirmed) == 0 {
		t.Errorf("no message of %s was confirmed", f.queue)
	}
}

func (f *traffic) lost() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing []int
	for n := range f.confirmed {
		if f.arrived[n] == 0 && !f.returned[n] {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d confirmed have not arrived, as %v", len(missing), len(f.confirmed), missing[:min(5, len(missing))])
}

func (f *traffic) repeated() (n int) {
	for _, times := range f.arrived {
		if times > 1 {
			n++
		}
	}
	return n
}

// podWatch sees every change of a cluster's pods.
type podWatch struct {
	mu       sync.Mutex
	pods     map[string]*corev1.Pod
	fewest   int // ready at any time
	replaced []string
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func watchPods(t *testing.T, r *cluster.Rabbit) *podWatch {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &podWatch{pods: map[string]*corev1.Pod{}, stop: stop}
	pods, err := r.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		w.pods[pods[i].Name] = &pods[i]
	}
	w.fewest = w.ready()
	w.running.Go(func() {
		for ctx.Err() == nil {
			if err := w.follow(ctx, r); err != nil && ctx.Err() == nil {
				t.Logf("watching pods again: %v", err)
			}
		}
	})
	t.Cleanup(func() { stop(); w.running.Wait() })
	return w
}

func (w *podWatch) follow(ctx context.Context, r *cluster.Rabbit) error {
	changes, err := k.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(r.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: r.Name})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		pod, ok := change.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("%v", change.Object)
		}
		w.saw(change.Type, pod)
	}
	return nil
}

func (w *podWatch) saw(what watch.EventType, pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.pods[pod.Name]; before != nil && before.UID != pod.UID {
		w.replaced = append(w.replaced, pod.Name)
	}
	if what == watch.Deleted {
		pod.Status.Conditions = nil
	}
	w.pods[pod.Name] = pod
	w.fewest = min(w.fewest, w.ready())
}

func (w *podWatch) ready() (n int) {
	for _, pod := range w.pods {
		if cluster.PodReady(pod) {
			n++
		}
	}
	return n
}

// seen stops watching and answers the fewest pods that were ready at any time, and which were replaced, in order.
func (w *podWatch) seen() (fewest int, replaced []string) {
	w.stop()
	w.running.Wait()
	return w.fewest, w.replaced
}
