package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// cpuPeriod is the kernel's usual period of accounting for processors, in microseconds.
const cpuPeriod = 100_000

// limits are the cgroups that hold each worker within its limits. They lie where
// the kernel keeps the controllers: below the containment where that is cgroup v2
// and has them, else in the controllers' own hierarchies of v1.
type limits struct {
	tops    []string // to be removed at the end; what lies below the containment goes with that
	workers []bound  // by local rank
}

// bound is one worker's.
type bound struct {
	cluster.Limits

	born  string   // the v2 cgroup that it is born into; "" = the containment's
	enter []string // v1 cgroups, by their directories
	// memory is the directory that tells of its memory.
	memory string
}

// controllers are those of the kernel that the limits need.
func controllers(l cluster.Limits) (names []string) {
	if l.MemoryBytes > 0 {
		names = append(names, "memory")
	}
	if l.CPUs > 0 {
		names = append(names, "cpu")
	}
	return names
}

// limit makes the groups that hold each worker within the order's limits. An
// error means that this node cannot.
func (c *containment) limit(name string, o run.Order, member cluster.Member) error {
	if o.Limits != (cluster.Limits{}) {
		if err := c.limitEach(name, c.own, o, member); err != nil {
			return err
		}
	}
	c.processes, c.unbound = c.bind(name, c.own, o, member)
	return nil
}

// limitEach keeps each worker within the limits that its job asks for.
func (c *containment) limitEach(name, own string, o run.Order, member cluster.Member) (err error) {
	l := &limits{}
	for local := range member.Processes() {
		l.workers = append(l.workers, bound{Limits: o.Limits.Of(len(member.DevicesOf(local)))})
	}
	c.limits = l
	for _, controller := range controllers(o.Limits) {
		err = l.inV2(c, own, controller, o.Scope)
		if errors.Is(err, errElsewhere) {
			err = l.inV1(name, controller)
		}
		if err != nil {
			return fmt.Errorf("limit the workers' %s: %w", map[string]string{"memory": "memory", "cpu": "processors"}[controller], err)
		}
	}
	return nil
}

// errElsewhere says that cgroup v2 does not have a controller on this machine.
var errElsewhere = errors.New("cgroup v2 has no such controller here")

// inV2 makes a child of the containment for each worker, with the controller's
// limits. own is the v2 cgroup in which the shim began; empty if there is none.
func (l *limits) inV2(c *containment, own, controller string, scope bool) error {
	if own == "" || !offers(own, controller) {
		return errElsewhere
	}
	if c.kind != Cgroup2 {
		return fmt.Errorf("it takes cgroup v2 here, and workers are held by %s: set the agent's --containment to auto", c.kind)
	}
	if err := delegate(own, controller, scope); err != nil {
		return err
	}
	return l.below(c.path, controller)
}

// below divides an empty group, in which the controller is to be had, among the workers.
func (l *limits) below(top, controller string) error {
	if err := turnOn(top, controller); err != nil {
		return err
	}
	for local := range l.workers {
		b := &l.workers[local]
		b.born = filepath.Join(top, "worker-"+strconv.Itoa(local))
		if err := os.Mkdir(b.born, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // for the other controller
			return fmt.Errorf("make cgroup: %w", err)
		}
		switch controller {
		case "memory":
			b.memory = b.born
			if err := setMemoryV2(b.born, fmt.Sprint(b.MemoryBytes)); err != nil {
				return err
			}
		case "cpu":
			if err := setCPUsV2(b.born, b.CPUs); err != nil {
				return err
			}
		}
	}
	return nil
}

// offers reports whether a v2 cgroup has a controller for its children.
func offers(dir, controller string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// delegate makes a controller available to the children of our own cgroup. The
// kernel allows it only where no process is in a group but at its leaves, so that
// in a scope, which is ours alone, this process moves into a leaf of its own.
func delegate(own, controller string, scope bool) error {
	err := turnOn(own, controller)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	const remedy = "run the agent by its systemd unit, which gives each generation a scope"
	if !scope {
		return fmt.Errorf("cgroup %s holds processes besides: %s", own, remedy)
	}
	leaf := filepath.Join(own, "shim") // it goes with the scope
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for _, pid := range []int{os.Getpid(), holderPID()} {
		if pid == 0 { // nothing holds this process any more
			continue
		}
		if err := set(leaf, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	if err := turnOn(own, controller); err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return nil
}

// turnOn lets a v2 cgroup's children have a controller.
func turnOn(dir, controller string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err == nil && slices.Contains(strings.Fields(string(b)), controller) {
		return nil
	}
	return set(dir, "cgroup.subtree_control", "+"+controller)
}

// inV1 makes a group for each worker in the controller's own hierarchy.
func (l *limits) inV1(name, controller string) error {
	own, err := hierarchy{"cgroup", controller}.own()
	if err != nil {
		return fmt.Errorf("this node's kernel offers no %s controller to the agent, by cgroup v2 or v1: %w", controller, err)
	}
	top := filepath.Join(own, name)
	if err := os.Mkdir(top, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // for a controller of the same hierarchy
		return fmt.Errorf("make cgroup: %w: run the agent as root", err)
	}
	if !slices.Contains(l.tops, top) {
		l.tops = append(l.tops, top)
	}
	for local := range l.workers {
		b := &l.workers[local]
		dir := filepath.Join(top, "worker-"+strconv.Itoa(local))
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if !slices.Contains(b.enter, dir) {
			b.enter = append(b.enter, dir)
		}
		if err := b.setV1(dir, controller); err != nil {
			return err
		}
	}
	return nil
}

func (b *bound) setV1(dir, controller string) error {
	if controller == "cpu" {
		return setCPUsV1(dir, b.CPUs)
	}
	b.memory = dir
	return setMemoryV1(dir, fmt.Sprint(b.MemoryBytes))
}

func setCPUsV1(dir string, cpus float64) error {
	if err := set(dir, "cpu.cfs_period_us", fmt.Sprint(cpuPeriod)); err != nil {
		return err
	}
	return set(dir, "cpu.cfs_quota_us", fmt.Sprint(quota(cpus)))
}

func setCPUsV2(dir string, cpus float64) error {
	return set(dir, "cpu.max", fmt.Sprintf("%d %d", quota(cpus), cpuPeriod))
}

// quota is how many microseconds of processors there are in a period; the kernel wants 1000 at least.
func quota(cpus float64) int64 { return max(1000, int64(cpus*cpuPeriod)) }

// set writes a file of a cgroup, which is there or is not for us.
func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set %s to %s: %w", file, value, err)
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s to %s: %w", file, value, err)
	}
	return nil
}

// hold prepares for the worker with that local rank to be started within its
// limits, kept from others' devices, and in the containment: release once it was. The
// caller has locked its goroutine to the thread, which is in the worker's v1
// groups meanwhile.
func (c *containment) hold(local int, attr *syscall.SysProcAttr) (release func(), err error) {
	var enters []func(*syscall.SysProcAttr) (func(), error)
	if c.devices != nil { // first: limits may lie below it
		enters = append(enters, c.devices.enter)
	}
	into := c.enter
	if c.limits != nil {
		b := c.limits.workers[local]
		for _, dir := range b.enter {
			enters = append(enters, bounded(dir).enter)
		}
		if b.born != "" {
			into = cgroup(b.born).enter
		}
	}
	var releases []func()
	release = func() {
		for _, r := range slices.Backward(releases) {
			r()
		}
	}
	for _, enter := range append(enters, into) {
		left, err := enter(attr)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, left)
	}
	return release, nil
}

// bounded is a worker's group in a v1 hierarchy, below its run's.
type bounded string

func (b bounded) enter(attr *syscall.SysProcAttr) (release func(), err error) {
	g := freezer(b) // whose way of entering is that of any v1 group
	if _, err = g.enter(attr); err != nil {
		return nil, err
	}
	return func() { g.leave(filepath.Dir(filepath.Dir(string(g)))) }, nil // worker, run, and where we were
}

// starved reports whether the kernel has killed something of a worker because it
// has reached its limit of memory.
func (c *containment) starved(local int) (limit uint64, yes bool) {
	if c.limits == nil || c.limits.workers[local].memory == "" {
		return 0, false
	}
	b := c.limits.workers[local]
	if b.born == b.memory {
		return b.MemoryBytes, killedForMemory(b.memory)
	}
	// The kernel does not tell whose limit it was. It charges in batches, so that the
	// most that was ever used stays a little below; a kill for the whole machine's
	// want would hardly meet a worker there. (failcnt is not kept by all kernels.)
	most := counted(b.memory, "memory.max_usage_in_bytes", "")
	near := int64(b.MemoryBytes / 10 * 9) //nolint:gosec // as large as the kernel's own numbers
	return b.MemoryBytes, most >= near && counted(b.memory, "memory.oom_control", "oom_kill") > 0
}

// killedForMemory reports whether the kernel has killed something of a v2 group because that, and not
// one above it, had no more memory.
func killedForMemory(dir string) bool {
	return counted(dir, "memory.events", "oom") > 0 && counted(dir, "memory.events", "oom_kill") > 0
}

// counted reads a number from a file of a cgroup: the line's that begins with
// name, or the only one. What cannot be read is 0.
func counted(dir, file, name string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == name || len(fields) == 1 && name == "" {
			n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// removeTops takes limits' groups away, empty as they are.
func removeTops(tops []string) error {
	var err error
	for _, top := range tops {
		err = errors.Join(err, removeCgroup(top))
	}
	return err
}
