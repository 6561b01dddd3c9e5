package warren

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestAttemptsGoByWhoKnowsBest(t *testing.T) {
	for _, tt := range []struct {
		name        string
		headers     amqp.Table
		redelivered bool
		here        int
		want        int
	}{
		{"the first time", nil, false, 0, 0},
		{"again, elsewhere", nil, true, 0, 1},
		{"again, and here before", nil, true, 3, 3},
		{"a quorum queue", amqp.Table{headerDeliveryCount: int64(4)}, true, 2, 4},
		{"a quorum queue that does not count what was lost", amqp.Table{headerDeliveryCount: int64(1)}, true, 2, 2},
		{"given back only", amqp.Table{headerAcquiredCount: int64(7)}, true, 0, 0},
		{"of a small type", amqp.Table{headerDeliveryCount: int32(2)}, true, 0, 2},
		{"out of a pack", amqp.Table{headerAttempts: int64(2)}, false, 0, 2},
		{"out of a pack, and again", amqp.Table{headerAttempts: int64(2)}, true, 1, 3},
		{"nonsense", amqp.Table{headerAttempts: "2", headerDeliveryCount: int64(-9)}, false, 0, 0},
		{"absurd", amqp.Table{headerDeliveryCount: int64(1 << 62)}, true, 0, 1<<31 - 1},
	} {
		if got := attempts(&amqp.Delivery{Headers: tt.headers, Redelivered: tt.redelivered}, tt.here); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTriesAreBoundedAndForgetTheOldestFirst(t *testing.T) {
	tries := newTries()
	d := func(i int) *amqp.Delivery { return &amqp.Delivery{MessageId: fmt.Sprint(i), Redelivered: true} }
	for i := range 10 * triesKept {
		tries.add(d(i))
		tries.add(d(0))
	}
	if n := len(tries.young) + len(tries.old); n > 2*triesKept {
		t.Errorf("%d are remembered", n)
	}
	if got := tries.of(d(0)); got != 10*triesKept+1 {
		t.Errorf("what is tried all the time has %d", got)
	}
	if tries.of(d(1)) != 0 || tries.of(d(10*triesKept-1)) != 1 {
		t.Error("the oldest is not the one that is forgotten")
	}
	body := &amqp.Delivery{Body: []byte("a"), Redelivered: true}
	tries.add(body)
	if tries.of(body) != 1 || tries.of(&amqp.Delivery{Body: []byte("b"), Redelivered: true}) != 0 {
		t.Error("without an ID it is not the body that tells")
	}
	if tries.of(&amqp.Delivery{Body: []byte("a")}) != 0 {
		t.Error("what comes for the first time was not tried")
	}
	tries.forget(body)
	if tries.of(body) != 0 {
		t.Error("not forgotten")
	}
}

func TestDelayGrowsWithAttemptsUpToASecond(t *testing.T) {
	for _, tt := range []struct {
		delay    time.Duration
		attempts int
		want     time.Duration
	}{
		{100 * time.Millisecond, 0, 100 * time.Millisecond},
		{100 * time.Millisecond, 3, 400 * time.Millisecond},
		{100 * time.Millisecond, 1 << 31, time.Second},
		{5 * time.Second, 0, 5 * time.Second},
		{5 * time.Second, 3, 5 * time.Second},
		{0, 3, 0},
	} {
		c, err := newConsumerConfig(queue, []ConsumeOption{RetryDelay(tt.delay)})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.delay(tt.attempts); got != tt.want {
			t.Errorf("%s after %d: %s, want %s", tt.delay, tt.attempts, got, tt.want)
		}
	}
}

func TestReasonsAreCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", 600), strings.Repeat("日", 400), "\xff\xfe", strings.Repeat("\xff", 2000)} {
		got := cut(text, maxReason)
		if len(got) > maxReason || !utf8.ValidString(got) || len(text) <= maxReason && utf8.ValidString(text) && got != text {
			t.Errorf("%.10q… became %d bytes", text, len(got))
		}
	}
}
