package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

// job is what a child process is told to do, by JSON on its standard input: the URI has a password.
type job struct {
	Variant string        `json:"variant"`
	URI     string        `json:"uri"`
	Queue   string        `json:"queue"`
	Size    int           `json:"size"`
	Body    string        `json:"body"`
	For     time.Duration `json:"for"`    // how long to publish, or to measure a contended consumer
	Settle  time.Duration `json:"settle"` // how long a contended consumer runs before it is measured
	Count   int           `json:"count"`  // messages in the queue that is consumed

	Window      int           `json:"window"` // unconfirmed messages at most
	Callers     int           `json:"callers"`
	Pack        bool          `json:"pack"`
	Codec       string        `json:"codec"`
	Unroutable  bool          `json:"unroutable"` // the queue does not exist: the broker only confirms
	Prefetch    int           `json:"prefetch"`
	Batch       int           `json:"batch"`
	Workers     int           `json:"workers"`
	Target      time.Duration `json:"target"`
	Service     model         `json:"service"`
	ProfileInto string        `json:"profileInto"`
}

// outcome is what a child process measured, as JSON on its standard output.
type outcome struct {
	Messages int     `json:"messages"` // as the application counts them
	Sent     int     `json:"sent"`     // as the broker does
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu"` // user and system seconds of the process
	Allocs   uint64  `json:"allocs"`
	Bytes    uint64  `json:"bytes"` // allocated
	P95      float64 `json:"p95"`   // seconds
	Limit    int     `json:"limit"` // batches that back-pressure let run at the end
	Ratio    float64 `json:"ratio"` // of sizes, plain to compressed
}

func (o outcome) rate() float64 {
	if o.Seconds <= 0 {
		return 0
	}
	return float64(o.Messages) / o.Seconds
}

func (o outcome) perMessage(v float64) float64 {
	if o.Messages == 0 {
		return 0
	}
	return v / float64(o.Messages)
}

// meter takes the time, CPU and allocations of this process from when it is made.
type meter struct {
	began  time.Time
	cpu    float64
	allocs uint64
	bytes  uint64
}

func startMeter() (*meter, error) {
	runtime.GC() // what the preparation left is not what is measured
	m := &meter{}
	var err error
	if m.cpu, err = cpuSeconds(); err != nil {
		return nil, err
	}
	m.allocs, m.bytes = allocated()
	m.began = time.Now()
	return m, nil
}

func (m *meter) stop(o *outcome) error {
	o.Seconds = time.Since(m.began).Seconds()
	cpu, err := cpuSeconds()
	if err != nil {
		return err
	}
	allocs, bytes := allocated()
	o.CPU, o.Allocs, o.Bytes = cpu-m.cpu, allocs-m.allocs, bytes-m.bytes
	return nil
}

func cpuSeconds() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}

func allocated() (objects, bytes uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/tiny/allocs:objects"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[2].Value.Uint64(), s[1].Value.Uint64()
}

// do is what the child process does.
func do(j job) (outcome, error) {
	if f := publishers[j.Variant]; f != nil {
		return publish(j, f)
	}
	if f := consumers[j.Variant]; f != nil {
		return f(j)
	}
	return outcome{}, fmt.Errorf("no variant is named %q", j.Variant)
}
