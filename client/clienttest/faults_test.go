package clienttest_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/client/clienttest"
)

// soon is how long a client may take to see what the broker did.
const soon = 10 * time.Second

func await[V any](t *testing.T, from <-chan V) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(soon):
		var v V
		t.Fatalf("no %T came", v)
		return v
	}
}

// setup is a broker with the queue q, and a channel in confirm mode.
func setup(t *testing.T, options ...clienttest.Options) (*clienttest.Broker, *amqp.Connection, *amqp.Channel) {
	t.Helper()
	b := clienttest.Start(t, options...)
	if err := b.DeclareQueue("q", nil); err != nil {
		t.Fatal(err)
	}
	c := dial(t, b)
	ch := channel(t, c)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return b, c, ch
}

func publish(t *testing.T, ch *amqp.Channel, bodies ...string) []*amqp.DeferredConfirmation {
	t.Helper()
	var all []*amqp.DeferredConfirmation
	for _, body := range bodies {
		d, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp.Publishing{Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func consume(t *testing.T, ch *amqp.Channel, prefetch int) <-chan amqp.Delivery {
	t.Helper()
	if err := ch.Qos(prefetch, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume("q", "consumer", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}

func texts(messages []clienttest.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Body))
	}
	return all
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func queue(t *testing.T, b *clienttest.Broker) clienttest.Queue {
	t.Helper()
	q, ok := b.Queue("q")
	if !ok {
		t.Fatal("there is no queue")
	}
	return q
}

func TestDropConnections(t *testing.T) {
	b, c, ch := setup(t)
	other, err := amqp.DialConfig(b.URL(), amqp.Config{Properties: amqp.Table{"connection_name": "other"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := b.Publish("q", clienttest.Message{Body: []byte("1")}, clienttest.Message{Body: []byte("2")}); err != nil {
		t.Fatal(err)
	}
	await(t, consume(t, ch, 1))
	want(t, "unacked", texts(queue(t, b).Unacked), []string{"1"})
	otherClosed, closed := other.NotifyClose(make(chan *amqp.Error, 1)), c.NotifyClose(make(chan *amqp.Error, 1))
	want(t, "dropped", b.DropConnections("other"), 1)
	_ = await(t, otherClosed)
	want(t, "first is closed", c.IsClosed(), false)
	want(t, "dropped", b.DropConnections(), 1)
	_ = await(t, closed)
	q := queue(t, b)
	want(t, "ready", texts(q.Ready), []string{"1", "2"})
	want(t, "redelivered", q.Ready[0].Redelivered, true)
	want(t, "consumers", len(q.Consumers), 0)
}

func TestDropAfter(t *testing.T) {
	b, c, ch := setup(t)
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	b.HoldConfirms()
	b.DropAfter(3)
	confirms := publish(t, ch, "1", "2", "3")
	_ = await(t, closed)
	for _, d := range confirms {
		want(t, "acked", d.Acked(), false)
	}
	want(t, "stored", texts(queue(t, b).Ready), []string{"1", "2", "3"})
	dial(t, b) // the plan is over
}

func TestHoldAndReleaseConfirms(t *testing.T) {
	b, _, ch := setup(t)
	b.HoldConfirms()
	confirms := publish(t, ch, "1", "2", "3")
	b.WaitFor(t, "publishes", func() bool { return b.Counters().Published == 3 })
	want(t, "confirmed", b.Counters().Confirmed, uint64(0))
	want(t, "held", b.Connections()[0].Channels[0].HeldTags, []uint64{1, 2, 3})
	b.ReleaseConfirms()
	for _, d := range confirms {
		want(t, "acked", d.Wait(), true)
	}
	counters := b.Counters()
	want(t, "confirmed, in frames", []uint64{counters.Confirmed, counters.ConfirmFrames}, []uint64{3, 1})
}

func TestNackNext(t *testing.T) {
	b, _, ch := setup(t)
	b.NackNext(2)
	var got []bool
	for _, d := range publish(t, ch, "1", "2", "3") {
		got = append(got, d.Wait())
	}
	want(t, "acked", got, []bool{false, false, true})
	want(t, "stored", texts(queue(t, b).Ready), []string{"3"})
}

func TestPlanConfirms(t *testing.T) {
	b, _, ch := setup(t)
	b.PlanConfirms(func(p clienttest.Published) clienttest.Verdict {
		switch string(p.Body) {
		case "nack":
			return clienttest.Nack
		case "hold":
			return clienttest.Hold
		}
		return clienttest.Ack
	})
	d := publish(t, ch, "hold", "nack", "ack", "ack")
	want(t, "nack", d[1].Wait(), false)
	want(t, "ack", d[3].Wait(), true)
	want(t, "held", b.Connections()[0].Channels[0].HeldTags, []uint64{1})
	b.ReleaseConfirms()
	want(t, "released", d[0].Wait(), true)
	want(t, "stored", texts(queue(t, b).Ready), []string{"hold", "ack", "ack"})
}

// A nack while earlier publishes are open, and then an ack of all: amqp091-go v1.16.0 tells listeners that the nacked
// message was acked. Deferred confirmations are right.
func TestSendConfirmsShowsWhatListenersMiss(t *testing.T) {
	b, _, ch := setup(t)
	events := ch.NotifyPublish(make(chan amqp.Confirmation, 5))
	b.HoldConfirms()
	d := publish(t, ch, "1", "2", "3", "4", "5")
	b.WaitFor(t, "publishes", func() bool { return b.Counters().Published == 5 })
	if err := b.SendConfirms([]clienttest.Confirm{{Tag: 3, Nack: true}, {Tag: 5, Multiple: true}}); err != nil {
		t.Fatal(err)
	}
	want(t, "deferred", []bool{d[1].Wait(), d[2].Wait(), d[4].Wait()}, []bool{true, false, true})
	for range 2 {
		await(t, events)
	}
	want(t, "what a listener hears of tag 3", await(t, events), amqp.Confirmation{DeliveryTag: 3, Ack: true})
	want(t, "held", len(b.Connections()[0].Channels[0].HeldTags), 0)
	if err := b.SendConfirms([]clienttest.Confirm{{Tag: 1}}); err == nil {
		t.Error("confirms were sent to nobody")
	}
}

func TestPauseAndResume(t *testing.T) {
	b, c, ch := setup(t)
	deliveries := consume(t, ch, 0)
	b.Pause()
	before := b.Counters()
	d := publish(t, ch, "1")[0]
	if err := b.Publish("q", clienttest.Message{Body: []byte("by the test")}); err != nil {
		t.Fatal(err)
	}
	dialed := make(chan error, 1)
	go func() {
		second, err := amqp.Dial(b.URL())
		if err == nil {
			err = second.Close()
		}
		dialed <- err
	}()
	b.WaitFor(t, "second connection", func() bool { return b.Counters().Accepted == before.Accepted+1 })
	want(t, "published under the pause", b.Counters().Published, before.Published)
	select {
	case got := <-deliveries:
		t.Errorf("got %s under the pause", got.Body)
	case err := <-dialed:
		t.Errorf("the dial ended under the pause: %v", err)
	default:
	}
	b.Resume()
	want(t, "confirmed", d.Wait(), true)
	got := []string{string(await(t, deliveries).Body), string(await(t, deliveries).Body)}
	slices.Sort(got)
	want(t, "delivered", got, []string{"1", "by the test"})
	if err := await(t, dialed); err != nil {
		t.Error(err)
	}
	b.Pause()
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	want(t, "dropped under a pause", b.DropConnections() >= 1, true)
	_ = await(t, closed)
}

// A pause in the middle of a large write must neither lose nor repeat a byte.
func TestPauseWithinAWrite(t *testing.T) {
	b, _, ch := setup(t)
	big := make([]byte, 4<<20)
	for i := range big {
		big[i] = byte(i * 7)
	}
	deliveries := consume(t, ch, 0)
	for range 8 {
		if err := b.Publish("q", clienttest.Message{Body: big}); err != nil {
			t.Fatal(err)
		}
		b.Pause()
		b.Resume()
	}
	for range 8 {
		if !bytes.Equal(await(t, deliveries).Body, big) {
			t.Fatal("the body differs")
		}
	}
}

func TestBlockReadsNothing(t *testing.T) {
	b, c, ch := setup(t)
	blocked := c.NotifyBlocked(make(chan amqp.Blocking, 2))
	want(t, "first", publish(t, ch, "1")[0].Wait(), true)
	b.Block("out of cheese")
	d := publish(t, ch, "2")[0]
	want(t, "reason", await(t, blocked), amqp.Blocking{Active: true, Reason: "out of cheese"})
	want(t, "blocked", b.Connections()[0].Blocked, true)
	dial(t, b) // others are served
	want(t, "stored", texts(queue(t, b).Ready), []string{"1"})
	b.Unblock()
	want(t, "unblocked", await(t, blocked).Active, false)
	want(t, "second", d.Wait(), true)
}

func TestCloseChannelsAndConnections(t *testing.T) {
	b, c, ch := setup(t)
	chClosed, closed := ch.NotifyClose(make(chan *amqp.Error, 1)), c.NotifyClose(make(chan *amqp.Error, 1))
	want(t, "channels", b.CloseChannels(406, "PRECONDITION_FAILED - so it is"), 1)
	want(t, "reason", await(t, chClosed).Reason, "PRECONDITION_FAILED - so it is")
	channel(t, c) // the connection goes on
	want(t, "connections", b.CloseConnections(320, "CONNECTION_FORCED - bye"), 1)
	want(t, "code", await(t, closed).Code, 320)
	b.WaitFor(t, "end", func() bool { return len(b.Connections()) == 0 })
}

func TestRefuseConnections(t *testing.T) {
	b, c, _ := setup(t)
	b.RefuseConnections(true)
	if refused, err := amqp.Dial(b.URL()); err == nil {
		_ = refused.Close()
		t.Fatal("the dial succeeded")
	}
	channel(t, c) // what is open goes on
	b.RefuseConnections(false)
	dial(t, b)
	want(t, "dials", []int{len(b.Dials()), int(b.Counters().Accepted), int(b.Counters().Refused)}, []int{2, 2, 1})
}

func TestCancelConsumers(t *testing.T) {
	b, _, ch := setup(t)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	if err := b.Publish("q", clienttest.Message{Body: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	deliveries := consume(t, ch, 5)
	d := await(t, deliveries)
	want(t, "consumers", queue(t, b).Consumers, []clienttest.Consumer{{Tag: "consumer", Queue: "q", Channel: 1, Prefetch: 5, Unacked: 1}})
	want(t, "cancelled", b.CancelConsumers("q"), 1)
	want(t, "tag", await(t, cancelled), "consumer")
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	b.WaitFor(t, "ack after the cancel", func() bool { return b.Counters().Acked == 1 })
}

func TestDeleteQueue(t *testing.T) {
	b, _, ch := setup(t)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	if err := b.Publish("q", clienttest.Message{}); err != nil {
		t.Fatal(err)
	}
	d := await(t, consume(t, ch, 5))
	want(t, "deleted", b.DeleteQueue("q"), true)
	await(t, cancelled)
	want(t, "deleted again", b.DeleteQueue("q"), false)
	if err := d.Ack(false); err != nil { // of a message that is gone
		t.Fatal(err)
	}
	if err := ch.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
}

func TestRestartKeepsWhatIsDurable(t *testing.T) {
	b, c, ch := setup(t)
	if err := b.DeclareQueue("quorum", clienttest.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("transient", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"q", "quorum"} {
		for mode, body := range []string{"", "transient", "persistent"}[1:] {
			if err := b.Publish(q, clienttest.Message{Properties: clienttest.Properties{DeliveryMode: uint8(mode + 1)}, Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	addr := b.Addr()
	b.Restart()
	_ = await(t, closed)
	want(t, "address", b.Addr(), addr)
	want(t, "classic", texts(queue(t, b).Ready), []string{"persistent"})
	quorum, _ := b.Queue("quorum")
	want(t, "quorum", texts(quorum.Ready), []string{"transient", "persistent"})
	_, there := b.Queue("transient")
	want(t, "transient queue", there, false)
	dial(t, b)
}

func TestConsumerTimeout(t *testing.T) {
	t.Run("3.10 closes the channel", func(t *testing.T) {
		b, _, ch := setup(t, clienttest.Options{Version: "3.10.8"})
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		b.SetConsumerTimeout(20 * time.Millisecond)
		if err := b.Publish("q", clienttest.Message{}); err != nil {
			t.Fatal(err)
		}
		await(t, consume(t, ch, 0))
		want(t, "code", await(t, closed).Code, 406)
		b.WaitFor(t, "requeued message", func() bool { ready, _ := b.Depth("q"); return ready == 1 })
	})
	t.Run("4.3 cancels consumers of quorum queues", func(t *testing.T) {
		b, _, ch := setup(t)
		if err := b.DeclareQueue("quorum", clienttest.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		cancelled := ch.NotifyCancel(make(chan string, 1))
		for _, q := range []string{"q", "quorum"} {
			if err := b.Publish(q, clienttest.Message{}); err != nil {
				t.Fatal(err)
			}
			deliveries, err := ch.Consume(q, q, false, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			await(t, deliveries)
			b.ExpireDeliveries(q)
		}
		want(t, "cancelled", await(t, cancelled), "quorum")
		quorum, _ := b.Queue("quorum")
		want(t, "counters", []int{len(quorum.Ready), quorum.Ready[0].DeliveryCount, quorum.Ready[0].AcquiredCount}, []int{1, 0, 1})
		_, unacked := b.Depth("q")
		want(t, "unacked in the classic queue", unacked, 1)
	})
}

func TestCountersAndConnections(t *testing.T) {
	b := clienttest.Start(t, clienttest.Options{User: "u", Password: "p", VHosts: []string{"main", "other"}})
	c, err := amqp.DialConfig(b.URL(), amqp.Config{Properties: amqp.Table{"connection_name": "mine"}, Heartbeat: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ch := channel(t, c)
	if err := b.VHost("main").DeclareQueue("q", nil); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if err := b.Publish("q", clienttest.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	deliveries := consume(t, ch, 10)
	for tag := uint64(1); tag <= 6; tag++ {
		d := await(t, deliveries)
		switch tag {
		case 2:
			err = d.Ack(true)
		case 3:
			err = d.Ack(false)
		case 4:
			err = d.Nack(false, false)
		case 5:
			err = d.Reject(false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.WaitFor(t, "settlements", func() bool { return b.Counters().Rejected == 1 })
	got := b.Counters()
	want(t, "counters", []uint64{got.Delivered, got.Acked, got.AckFrames, got.AckFramesMultiple, got.Nacked, got.Rejected, got.Dropped},
		[]uint64{6, 3, 2, 1, 1, 1, 2})
	conns := b.Connections()
	if len(conns) != 1 {
		t.Fatalf("got %d connections", len(conns))
	}
	seen := conns[0]
	want(t, "connection", []any{seen.Name, seen.User, seen.VHost, seen.Heartbeat, seen.FrameMax}, []any{"mine", "u", "main", 30 * time.Second, 131072})
	want(t, "channel", []any{seen.Channels[0].Number, seen.Channels[0].Prefetch, seen.Channels[0].Unacked}, []any{uint16(1), 10, 1})
	want(t, "consumers", seen.Channels[0].Consumers, []clienttest.Consumer{{Tag: "consumer", Queue: "q", Connection: "mine", Channel: 1, Prefetch: 10, Unacked: 1}})
	want(t, "other vhost", b.VHost("none") == nil && b.VHost("other") != nil, true)
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	b := clienttest.Start(t, clienttest.Options{TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}})
	roots := x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(cert)
	c, err := amqp.DialTLS(b.URL(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.Pause()
	b.Resume()
	channel(t, c)
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]clienttest.Options{
		"version": {Version: "2.8"}, "frame": {FrameMax: 100}, "channels": {ChannelMax: 70000}, "address": {Listen: "256.0.0.1:0"},
	} {
		if b, err := clienttest.New(o); err == nil {
			b.Close()
			t.Errorf("%s was taken", name)
		}
	}
}

func TestPublishRefuses(t *testing.T) {
	b := clienttest.Start(t)
	if err := b.DeclareQueue("q", clienttest.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := b.DeclareQueue("q", nil); err == nil {
		t.Error("a queue was declared in two ways")
	}
	for name, m := range map[string]clienttest.Message{
		"expiration": {Properties: clienttest.Properties{Expiration: "soon"}},
		"header":     {Properties: clienttest.Properties{Headers: clienttest.Table{"x": struct{}{}}}},
	} {
		if err := b.Publish("q", m); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := b.Publish("q", clienttest.Message{}, clienttest.Message{}); err == nil {
		t.Error("a full queue took a message")
	}
	if err := b.Publish("nope", clienttest.Message{}); err == nil {
		t.Error("a missing queue took a message")
	}
}

// Clients that go at any moment leave nothing behind.
func TestAbruptClients(t *testing.T) {
	b, _, ch := setup(t)
	deliveries := consume(t, ch, 1)
	for range 20 {
		c, err := amqp.Dial(b.URL())
		if err != nil {
			t.Fatal(err)
		}
		other := channel(t, c)
		if _, err := other.Consume("q", "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		_ = other.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: make([]byte, 100_000)})
		_ = c.CloseDeadline(time.Now())
	}
	b.WaitFor(t, "their end", func() bool { return len(b.Connections()) == 1 })
	for {
		ready, unacked := b.Depth("q")
		if ready+unacked == 0 {
			break
		}
		if err := await(t, deliveries).Ack(false); err != nil {
			t.Fatal(err)
		}
		b.WaitFor(t, "ack", func() bool { r, u := b.Depth("q"); return r+u < ready+unacked })
	}
}
