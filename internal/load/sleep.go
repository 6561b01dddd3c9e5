package load

import (
	"errors"
	"syscall"
	"time"
)

// errCapped: a cap of the scenario stopped the load.
var errCapped = errors.New("a cap of the scenario stopped the load")

const (
	prSetTimerSlack = 29
	// longSleep is from when on a wait goes through the runtime's timers, which can be interrupted but are up to 1 ms late.
	longSleep = 20 * time.Millisecond
	// mostPrecise is how many publishers may sleep in the kernel: each takes a thread then.
	mostPrecise = 64
)

// sleepUntil waits until the run's clock shows at, but for least at any rate, so that a process of many publishers is not
// busy with waking up. It is false when done is closed first.
func (c clock) sleepUntil(done <-chan struct{}, at int64, least time.Duration) bool {
	wait := time.Duration(at - c.now())
	if wait > longSleep || least == 0 {
		early := wait
		if least > 0 {
			early -= 2 * time.Millisecond
		}
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return false
		}
		wait = time.Duration(at - c.now())
	}
	if wait = max(wait, least); least > 0 && wait > 0 {
		nap(wait)
	}
	return true
}

// nap sleeps in the kernel: the runtime's timers are late by up to a millisecond when a process is idle.
func nap(d time.Duration) {
	// The kernel may be 50 µs late by default, to wake once for several sleepers.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
	left := syscall.NsecToTimespec(int64(d))
	for {
		var rest syscall.Timespec
		if err := syscall.Nanosleep(&left, &rest); !errors.Is(err, syscall.EINTR) {
			return
		}
		left = rest
	}
}

// leastSleep is how long publishers sleep at least: together they wake up at most 40,000 times a second. It is 0, for the
// runtime's timers, when there are too many of them.
func leastSleep(publishers int) time.Duration {
	if publishers > mostPrecise {
		return 0
	}
	return max(50*time.Microsecond, time.Duration(publishers)*25*time.Microsecond)
}
