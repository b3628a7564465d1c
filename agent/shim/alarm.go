package shim

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
)

// alarm wakes the machine at a time of CLOCK_BOOTTIME, which Go's own timers do
// not know: they stand still while the machine sleeps.
type alarm struct {
	timer *os.File
	fd    int
	rang  chan struct{}
	next  int64 // earliest time asked for; 0 = none
	armed int64
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make timer: %w", err)
	}
	a := &alarm{timer: os.NewFile(uintptr(fd), "timer"), fd: fd, rang: make(chan struct{}, 1)}
	go a.watch()
	return a, nil
}

// watch ends when the timer is closed.
func (a *alarm) watch() {
	b := make([]byte, 8)
	for {
		if _, err := a.timer.Read(b); err != nil {
			return
		}
		select {
		case a.rang <- struct{}{}:
		default: // it is going to look anyway
		}
	}
}

func (a *alarm) clear() { a.next = 0 }

// at asks to be woken at t, or earlier.
func (a *alarm) at(t int64) {
	if a.next == 0 || t < a.next {
		a.next = max(t, 1)
	}
}

// set puts into force what was asked for since clear. A time that has passed rings at once.
func (a *alarm) set() {
	if a.next == a.armed && a.next > proc.Boottime() {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(a.next)}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("shim: set timer: " + err.Error()) // our own descriptor, and a valid time
	}
	a.armed = a.next
}

func (a *alarm) close() { _ = a.timer.Close() }
