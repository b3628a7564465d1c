package proc

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// Boottime returns the time since boot in nanoseconds, the machine's sleep
// included: the clock of Wish.Deadline.
func Boottime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("shim: read CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39
	}
	return ts.Nano()
}

// Alive reports whether the process still lives. A zombie is dead.
func Alive(p run.Process) bool {
	if p.PID <= 0 || p.BootID != BootID() {
		return false
	}
	s, err := ReadStat(p.PID)
	return err == nil && s.Start == p.StartTime && s.Lives()
}

// Identify returns the lasting name of a process that cannot be reaped meanwhile.
func Identify(pid int) (run.Process, error) {
	s, err := ReadStat(pid)
	if err != nil {
		return run.Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return run.Process{PID: pid, StartTime: s.Start, BootID: BootID()}, nil
}

// UnknownBoot is what BootID returns where the kernel does not say.
const UnknownBoot = "unknown"

// BootID names the time since the machine was started.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return UnknownBoot // without /proc nothing else here works either
	}
	return strings.TrimSpace(string(b))
}
