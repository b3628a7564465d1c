package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/bellows-ml/bellows/agent/run"
)

// Ahead is what the processes that run ahead of a run may have. They have no device. In cgroup v2 each
// process has a group of its own with the bounds of memory and processors; in v1 they hold for all together.
type Ahead struct {
	Devices   *run.DeviceFiles // of the node; nil = it has none
	Memory    uint64           // bytes; 0 = any
	Processes int              // and threads, of all together; 0 = any
	CPUs      float64          // 0 = any
}

// ahead is where they are: in cgroup v2 each has a group of its own, which is given the rules when the process is executed;
// in hierarchies of v1 all are in one.
type ahead struct {
	room
	rules  []rule
	denied v1Group // of v1's controller of devices; it has no device
}

// aheadGroup is the name of their groups. In cgroup v2 a number follows, as each process has its own group: Linux 6.18
// kills what is started in a group that was killed before.
const aheadGroup = "ahead"

// BoundAhead prepares the bounds of what runs ahead. Where a bound cannot be had, as where a user may make no groups,
// AheadUnbound says why, and what runs ahead is started without it.
func (c *Containment) BoundAhead(a Ahead) {
	c.AheadUnbound = c.keepAhead(a.Devices)
	for _, r := range rules(a.Memory, a.CPUs) {
		c.AheadUnbound = errors.Join(c.AheadUnbound, c.ruleAhead(r))
	}
	if a.Processes > 0 {
		// What runs ahead has no device yet, so it may have the processes of one. In cgroup v2 the bound is on the
		// run's own group, and Limit raises it for the workers.
		r := atMostProcesses(a.Processes)
		top, v2, err := c.home(r.controller)
		if err == nil && v2 {
			err = r.v2(top)
		} else if err == nil {
			err = c.bound(&c.ahead.room, aheadGroup, r)
		}
		if err != nil {
			c.AheadUnbound = errors.Join(c.AheadUnbound, fmt.Errorf("limit the %s of what runs ahead: %w", r.what(), err))
		}
	}
}

// ruleAhead puts a rule in force on what runs ahead.
func (c *Containment) ruleAhead(r rule) error {
	fail := func(err error) error { return fmt.Errorf("limit the %s of what runs ahead: %w", r.what(), err) }
	_, v2, err := c.home(r.controller)
	switch {
	case err != nil:
		return fail(err)
	case !v2:
		if err = c.bound(&c.ahead.room, aheadGroup, r); err != nil {
			return fail(err)
		}
		return nil
	}
	// Their groups lie below the run's. The kernel then allows no process in the run's own: workers get a group beside.
	home := filepath.Join(c.Path, "workers")
	if err = makeGroup(home); err != nil && !errors.Is(err, os.ErrExist) { // for another rule
		return fail(err)
	}
	if err = turnOn(c.Path, r.controller); err != nil {
		return fail(err)
	}
	c.workersIn = home
	c.ahead.rules = append(c.ahead.rules, r)
	return nil
}

// keepAhead keeps what runs ahead from all devices, also from those that their workers will have: what
// they open stays open, and no plan is needed to know that none is theirs.
func (c *Containment) keepAhead(d *run.DeviceFiles) error {
	if d == nil {
		return nil
	}
	none := run.DeviceFiles{Major: d.Major, Last: d.Last}
	var why error
	if c.Kind == run.Cgroup2 {
		if why = tryFilter(filepath.Join(c.Path, aheadGroup+"-try"), none); why == nil {
			c.ahead.rules = append(c.ahead.rules, rule{v2: func(dir string) error { return filterDevices(dir, none) }})
			return nil
		}
	}
	top, err := c.top(hierarchy{"cgroup", "devices"})
	if err == nil {
		g := v1Group{filepath.Join(top, aheadGroup), filepath.Dir(top)}
		if err = c.denyAhead(g.dir, none); err == nil {
			c.ahead.add(g)
			c.ahead.denied = g
			return nil
		}
	}
	if c.Kind != run.Cgroup2 {
		why = err
		if top, err = c.top(hierarchy{fstype: "cgroup2"}); err == nil {
			dir := filepath.Join(top, aheadGroup)
			if err = makeGroup(dir); err == nil {
				err = filterDevices(dir, none)
			}
			if err == nil {
				c.ahead.v2 = dir
				return nil
			}
		}
	}
	return fmt.Errorf("keep what runs ahead from devices: %w", errors.Join(why, err))
}

func (c *Containment) denyAhead(dir string, none run.DeviceFiles) error {
	if err := makeGroup(dir); err != nil && !errors.Is(err, os.ErrExist) { // for another rule in the same hierarchy
		return err
	}
	return deny(dir, none)
}

// ExecuteAhead is Execute for a process that runs ahead, the n-th of the run.
func (c *Containment) ExecuteAhead(n int, program string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	s, err := c.seatAhead(n)
	if err != nil {
		return 0, err
	}
	s.v1 = slices.Concat(s.v1, c.frozen())
	return execute(s, program, argv, attr)
}

// seatAhead is where the n-th process that runs ahead is, besides the freezer.
func (c *Containment) seatAhead(n int) (seat, error) {
	s := seat{v2: c.ahead.v2, v1: c.ahead.v1}
	if c.Kind != run.Cgroup2 {
		return s, nil
	}
	s.v2 = filepath.Join(c.Path, aheadGroup+"-"+strconv.Itoa(n))
	if err := makeGroup(s.v2); err != nil {
		return seat{}, err
	}
	if err := c.ahead.inForce(s.v2); err != nil {
		return seat{}, err
	}
	return s, nil
}

// inForce gives a process's own group the rules.
func (a *ahead) inForce(dir string) error {
	for _, r := range a.rules {
		if err := r.v2(dir); err != nil {
			return err
		}
		if r.memory > 0 {
			a.memory, a.memoryV2, a.bytes = dir, true, r.memory
		}
	}
	return nil
}

// AheadStarved reports whether the kernel has killed something of what runs ahead because it had no more memory, and
// how many bytes it may have.
func (c *Containment) AheadStarved() (limit uint64, yes bool) {
	return c.ahead.bytes, c.ahead.starved()
}
