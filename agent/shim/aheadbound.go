package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// aheadBound keeps what runs ahead of a run within what it may have, by the kernel: no device, and
// so much memory, so many processes, and the processors of one worker. Beside that its memory is looked at (ahead.watch), for where the kernel keeps none.
type aheadBound struct {
	groups []besides                // groups besides the containment's, in which processes run ahead
	rules  []func(dir string) error // what each one's own group of v2 is given
	tops   []string                 // of the groups besides, to be removed at the end
	bytes  int64                    // of memory; 0 = the kernel keeps no bound
	memory string                   // the group of v1 that bounds memory, or of v2 the one of the last of them
	inV1   bool                     // memory is one of v1
	why    error                    // why the kernel keeps less
}

// besides is a group for what runs ahead in another hierarchy than the containment's, below the run's there.
type besides struct {
	dir   string
	rest  string // where a process is that is in no group of the run's
	enter func(*syscall.SysProcAttr) (func(), error)
	// devices says that it is for nothing else than to keep them from devices.
	devices bool
}

// makeBesides makes such a group. What it leaves after an error is removed with the run.
func (b *aheadBound) makeBesides(h hierarchy, name string) (besides, error) {
	own, err := h.own()
	if err != nil {
		return besides{}, err
	}
	top := filepath.Join(own, name)
	g := besides{dir: filepath.Join(top, "ahead"), rest: own}
	g.enter = bounded(g.dir).enter
	if h.fstype == "cgroup2" {
		g.enter = cgroup(g.dir).enter
	}
	for _, dir := range []string{top, g.dir} {
		if err := makeGroup(dir); err != nil && !errors.Is(err, os.ErrExist) { // for another rule of the same hierarchy
			return besides{}, err
		}
		if !slices.Contains(b.tops, top) {
			b.tops = append(b.tops, top)
		}
	}
	return g, nil
}

// aheadMemory is how much memory what runs ahead of an order may have, in bytes; 0 = any.
func aheadMemory(o run.Order) int64 {
	most := int64(0)
	if o.Prepare != nil {
		most = o.Prepare.Memory
	}
	if limit := int64(o.Limits.MemoryBytes); limit > 0 && (most == 0 || limit < most) { //nolint:gosec // as large as the kernel's own numbers
		most = limit
	}
	return most
}

// boundAhead makes ready that what runs ahead is started within its bounds. Where one
// cannot be had, as where a user may make no groups, it is started all the same.
func (c *containment) boundAhead(name string, o run.Order) {
	if o.Prepare == nil {
		return
	}
	c.ahead.why = errors.Join(c.keepAhead(name, o.DeviceFiles), c.boundMemory(name, o), c.boundProcesses(name, o), c.boundCPUs(name, o))
}

// keepAhead keeps what runs ahead from all devices, also from those that their workers will have: what
// they open stays open, and no plan is needed to know that none is theirs.
func (c *containment) keepAhead(name string, d *run.DeviceFiles) error {
	if d == nil {
		return nil
	}
	b := &c.ahead
	none := run.DeviceFiles{Major: d.Major, Last: d.Last}
	var why error
	if c.kind == Cgroup2 {
		if why = tryFilter(filepath.Join(c.path, aheadGroup+"try"), none); why == nil {
			b.rules = append(b.rules, func(dir string) error { return filterDevices(dir, none) })
			return nil
		}
	}
	g, err := b.makeBesides(hierarchy{"cgroup", "devices"}, name)
	if err == nil {
		err = deny(g.dir, none)
	}
	if err != nil && c.kind != Cgroup2 {
		why = err
		if g, err = b.makeBesides(hierarchy{fstype: "cgroup2"}, name); err == nil {
			err = filterDevices(g.dir, none)
		}
	}
	if err != nil {
		return fmt.Errorf("keep what runs ahead from devices: %w", errors.Join(why, err))
	}
	g.devices = true
	b.groups = append(b.groups, g)
	return nil
}

// boundMemory bounds the memory of what runs ahead.
func (c *containment) boundMemory(name string, o run.Order) (err error) {
	b, most := &c.ahead, aheadMemory(o)
	if o.Prepare == nil || most == 0 {
		return nil
	}
	if c.kind == Cgroup2 && c.own != "" && offers(c.own, "memory") {
		if err = c.divide("memory", o.Scope); err == nil {
			b.rules = append(b.rules, func(dir string) error {
				b.memory = dir
				return setMemoryV2(dir, fmt.Sprint(most))
			})
		}
	} else {
		err = b.memoryInV1(name, most)
	}
	if err == nil {
		b.bytes = most
	}
	return err
}

// boundProcesses bounds the processes of what runs ahead: by as many as a
// job may have for one device, of which it has none yet.
func (c *containment) boundProcesses(name string, o run.Order) (err error) {
	if o.Processes == 0 {
		return nil
	}
	most := strconv.Itoa(o.Processes)
	if c.kind == Cgroup2 && c.own != "" && offers(c.own, "pids") {
		if o.Prepare == nil {
			return nil // the run's own bound holds it, which a plan makes wider
		}
		if err = delegate(c.own, "pids", o.Scope); err == nil {
			err = set(c.path, "pids.max", most)
		}
	} else {
		err = c.ahead.boundInV1(name, "pids", func(dir string) error { return set(dir, "pids.max", most) })
	}
	if err != nil {
		return fmt.Errorf("limit the processes of what runs ahead: %w", err)
	}
	return nil
}

// boundCPUs gives what runs ahead no more of the processors than the worker of one device has.
func (c *containment) boundCPUs(name string, o run.Order) (err error) {
	if o.Prepare == nil || o.Limits.CPUs == 0 {
		return nil
	}
	if c.kind == Cgroup2 && c.own != "" && offers(c.own, "cpu") {
		if err = c.divide("cpu", o.Scope); err == nil {
			c.ahead.rules = append(c.ahead.rules, func(dir string) error { return setCPUsV2(dir, o.Limits.CPUs) })
		}
	} else {
		err = c.ahead.boundInV1(name, "cpu", func(dir string) error { return setCPUsV1(dir, o.Limits.CPUs) })
	}
	if err != nil {
		return fmt.Errorf("limit the processors of what runs ahead: %w", err)
	}
	return nil
}

// boundInV1 has what runs ahead be in a group in a controller's own hierarchy.
func (b *aheadBound) boundInV1(name, controller string, bound func(dir string) error) error {
	g, err := b.makeBesides(hierarchy{"cgroup", controller}, name)
	if err == nil {
		err = bound(g.dir)
	}
	if err == nil {
		b.groups = append(b.groups, g)
	}
	return err
}

// divide has the groups of what runs ahead, which lie below the run's, have a controller. The
// kernel then allows no process in the run's own: workers get a group beside them.
func (c *containment) divide(controller string, scope bool) error {
	if err := delegate(c.own, controller, scope); err != nil {
		return err
	}
	home := filepath.Join(c.path, "workers")
	if err := os.Mkdir(home, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // for another controller
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := turnOn(c.path, controller); err != nil {
		return err
	}
	c.home = home
	return nil
}

// memoryInV1 bounds memory by a group in the hierarchy of v1.
func (b *aheadBound) memoryInV1(name string, most int64) error {
	g, err := b.makeBesides(hierarchy{"cgroup", "memory"}, name)
	if err != nil {
		return err
	}
	if err = setMemoryV1(g.dir, fmt.Sprint(most)); err != nil {
		return err
	}
	b.groups = append(b.groups, g)
	b.memory, b.inV1 = g.dir, true
	return nil
}

// enter has a process be born within its bounds; leaf is its group of v2, if it has one.
func (b *aheadBound) enter(leaf string, attr *syscall.SysProcAttr) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range slices.Backward(releases) {
			r()
		}
	}
	for _, rule := range b.rules {
		if err = rule(leaf); err != nil {
			return nil, err
		}
	}
	for _, g := range b.groups {
		left, err := g.enter(attr)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, left)
	}
	return release, nil
}

// reached reports whether the kernel has killed something of what runs ahead because it had no more memory.
func (b *aheadBound) reached() bool {
	switch {
	case b.memory == "":
		return false
	case b.inV1:
		return counted(b.memory, "memory.oom_control", "oom_kill") > 0
	}
	return killedForMemory(b.memory)
}

// calmFor is how long a process runs ahead with what other processes leave of the processors. It is
// then one of them, so that a rescale does not wait in vain for it on a machine that is always busy.
const calmFor = 15 * time.Second

// Priorities of what is calm.
const (
	calmNice   = 19
	capSysNice = 23
)

// calm lets all others go before what runs ahead, as far as that can be taken back: by the priority of its
// session, where the kernel shares out processors by sessions, and by its own, which only root may raise again.
func calm(pid int) {
	_ = setAutogroup(pid, calmNice) // on many machines there is no such thing
	if !mayRaise() {
		return
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, calmNice) // and so of what it starts from here on
	for _, each := range treeOf(pid) {
		_ = unix.Setpriority(unix.PRIO_PROCESS, each, calmNice)
	}
}

// treeOf is a process, and what it has started.
func treeOf(pid int) []int {
	pids := []int{pid}
	if all, err := processes(); err == nil {
		for _, p := range familyOf(all).descendants(map[int]bool{pid: true}) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// hurry gives a process, and what it has started, the priority that this one has: each of their threads.
func hurry(pid int) error {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("read the priority of the shim: %w", err)
	}
	for _, each := range treeOf(pid) {
		_ = setAutogroup(each, 0) // workers have sessions of their own, which begin with 0
		if errRaise := raiseThreads(each, own); each == pid || !errors.Is(errRaise, os.ErrNotExist) {
			err = errors.Join(err, errRaise)
		}
	}
	if err != nil {
		return fmt.Errorf("give what ran ahead the priority of a worker: %w", err)
	}
	return nil
}

// raiseThreads gives each thread of a process a priority, as the kernel tells it. What one starts meanwhile has its own.
func raiseThreads(pid, priority int) error {
	const zero = 20 // the kernel's number for a priority of 0
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir(proc.file(pid, "task"))
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				return err
			}
			now, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
			if err == nil && now != priority {
				again = true // it may have started another before
				err = unix.Setpriority(unix.PRIO_PROCESS, tid, zero-priority)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // a thread that has ended
				return err
			}
		}
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
