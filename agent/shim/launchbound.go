package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launcherBound keeps the memory of a run's launcher within what it may have, by the
// kernel: beside that its memory is looked at, which counts files that others share.
type launcherBound struct {
	bytes int64  // 0 = the kernel keeps no bound
	top   string // the group in the hierarchy of v1, to be removed at the end; "" = there is none
	dir   string // that of v1, or of v2 the one of the last launcher
	rest  string // where a process of v1 is that is not bound
	why   error  // why the kernel keeps none
}

// launcherMemory is how much memory the launcher of an order may have, in bytes; 0 = any.
func launcherMemory(o Order) int64 {
	most := int64(0)
	if o.Prepare != nil {
		most = o.Prepare.Memory
	}
	if limit := int64(o.Limits.MemoryBytes); limit > 0 && (most == 0 || limit < most) { //nolint:gosec // as large as the kernel's own numbers
		most = limit
	}
	return most
}

// boundLauncher makes ready that the launcher of a prepared run is started within its bound. Where
// that cannot be had, as where a user may make no groups, launchers are started all the same.
func (c *containment) boundLauncher(name string, o Order) {
	most := launcherMemory(o)
	if o.Prepare == nil || most == 0 {
		return
	}
	b := &c.launcher
	if c.kind == Cgroup2 && c.own != "" && offers(c.own, "memory") {
		b.why = c.divide("memory", o.Scope)
	} else {
		b.why = b.makeV1(name, most)
	}
	if b.why == nil {
		b.bytes = most
	}
}

// divide has the groups of launchers, which lie below the run's, have a controller. The
// kernel then allows no process in the run's own: workers get a group beside them.
func (c *containment) divide(controller string, scope bool) error {
	if err := delegate(c.own, controller, scope); err != nil {
		return err
	}
	home := filepath.Join(c.path, "workers")
	if err := os.Mkdir(home, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := turnOn(c.path, controller); err != nil {
		return err
	}
	c.home = home
	return nil
}

// makeV1 makes the group in the hierarchy of v1.
func (b *launcherBound) makeV1(name string, most int64) error {
	own, err := hierarchy{"cgroup", "memory"}.own()
	if err != nil {
		return err
	}
	top := filepath.Join(own, name)
	dir := filepath.Join(top, "launcher")
	if err = os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	b.top, b.rest = top, own
	if err = setMemoryV1(dir, fmt.Sprint(most)); err != nil {
		return err
	}
	b.dir = dir
	return nil
}

// enter has a launcher be born within its bound; leaf is its group of v2, if it has one.
func (b *launcherBound) enter(leaf string, attr *syscall.SysProcAttr) (release func(), err error) {
	switch {
	case b.bytes == 0:
		return func() {}, nil
	case b.top != "":
		return bounded(b.dir).enter(attr)
	}
	b.dir = leaf
	return func() {}, setMemoryV2(leaf, fmt.Sprint(b.bytes))
}

// reached reports whether the kernel has killed something of a launcher because it had no more memory.
func (b *launcherBound) reached() bool {
	switch {
	case b.dir == "":
		return false
	case b.top != "":
		return counted(b.dir, "memory.oom_control", "oom_kill") > 0
	}
	return killedForMemory(b.dir)
}

// calmFor is how long a launcher imports with what other processes leave of the processors. It is
// then one of them, so that a rescale does not wait in vain for it on a machine that is always busy.
const calmFor = 15 * time.Second

// Priorities of a launcher that is calm.
const (
	calmNice   = 19
	capSysNice = 23
)

// calm lets all others go before a launcher, as far as that can be taken back: by the priority of its
// session, where the kernel shares out processors by sessions, and by its own, which only root may raise again.
func calm(pid int) {
	_ = setAutogroup(pid, calmNice) // on many machines there is no such thing
	if mayRaise() {
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, calmNice)
	}
}

// hurry gives a process the priority that this one has.
func hurry(pid int) error {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("read the priority of the shim: %w", err)
	}
	_ = setAutogroup(pid, 0) // workers have sessions of their own, which begin with 0
	const zero = 20          // the kernel's number for a priority of 0
	now, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err == nil && now != own {
		err = unix.Setpriority(unix.PRIO_PROCESS, pid, zero-own)
	}
	if err != nil {
		return fmt.Errorf("give its launcher the priority of a worker: %w", err)
	}
	return nil
}

// setAutogroup sets the priority of a process's session.
func setAutogroup(pid, nice int) error {
	return os.WriteFile(proc.file(pid, "autogroup"), []byte(strconv.Itoa(nice)), 0)
}

// mayRaise reports whether this process may raise priorities.
func mayRaise() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	return unix.Capget(&header, &has[0]) == nil && has[0].Effective&(1<<capSysNice) != 0
}

// setMemoryV1 bounds the memory of a group of v1, and memory and swap together.
func setMemoryV1(dir, bytes string) error {
	if err := set(dir, "memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	// Kernels that do not count swap lack it.
	if err := set(dir, "memory.memsw.limit_in_bytes", bytes); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// setMemoryV2 bounds the memory of a group of v2, which is killed as a whole then: half of
// what is inside is of no use.
func setMemoryV2(dir, bytes string) error {
	if err := set(dir, "memory.max", bytes); err != nil {
		return err
	}
	if err := set(dir, "memory.oom.group", "1"); err != nil {
		return err
	}
	if err := set(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // without swap there is no such file
	}
	return nil
}
