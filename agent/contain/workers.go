package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// Limit holds each worker of this node within its job's limits: an error means that this node cannot. And it bounds how
// many processes and threads all of them may have together, so many for each device, so that a job that forks without
// end fails instead of the node. Where the kernel keeps no such bound Processes is 0 and Unbound says why: unlike limits
// that a job asks for it is for the others' sake, and no reason to refuse the job.
func (c *Containment) Limit(limits cluster.Limits, processes int, member cluster.Member) error {
	c.rooms = make([]room, member.Processes())
	for local := range c.rooms {
		its := limits.Of(len(member.DevicesOf(local)))
		for _, r := range rules(its.MemoryBytes, its.CPUs) {
			if err := c.bound(&c.rooms[local], workerGroup(local), r); err != nil {
				return fmt.Errorf("limit the workers' %s: %w", r.what(), err)
			}
		}
	}
	if most := processes * len(member.Devices); most > 0 {
		if c.Unbound = c.boundAll(atMostProcesses(most)); c.Unbound == nil {
			c.Processes = most
		}
	}
	return nil
}

func workerGroup(local int) string { return "worker-" + strconv.Itoa(local) }

// boundAll puts a rule in force on all workers together.
func (c *Containment) boundAll(what rule) error {
	fail := func(err error) error { return fmt.Errorf("limit the workers' %s: %w", what.what(), err) }
	top, v2, err := c.home(what.controller)
	if err != nil {
		return fail(err)
	}
	if v2 {
		if err = what.v2(top); err != nil {
			return fail(err)
		}
		return nil
	}
	if err = what.v1(top); err != nil {
		return fail(err)
	}
	dirs := make([]string, len(c.rooms))
	for local := range dirs {
		dirs[local] = filepath.Join(top, workerGroup(local))
		if err = makeGroup(dirs[local]); err != nil && !errors.Is(err, os.ErrExist) { // for a limit in the same hierarchy
			return fail(err)
		}
	}
	for local, dir := range dirs {
		c.rooms[local].add(v1Group{dir, filepath.Dir(top)})
	}
	return nil
}

// Starved reports whether the kernel has killed something of a worker because it
// has reached its limit of memory, and how many bytes that is.
func (c *Containment) Starved(local int) (limit uint64, yes bool) {
	if local >= len(c.rooms) {
		return 0, false
	}
	r := &c.rooms[local]
	return r.bytes, r.starved()
}

// Execute starts a program as the worker with that local rank: within its limits, kept from others' devices, and inside
// from its first instruction on. The caller has locked its goroutine to the thread.
func (c *Containment) Execute(local int, program string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	s := c.seat(local)
	s.v1 = slices.Concat(s.v1, c.frozen())
	return execute(s, program, argv, attr)
}

// seat is where a worker is, besides the freezer.
func (c *Containment) seat(local int) (s seat) {
	s.v2 = c.base
	if c.workersIn != "" {
		s.v2 = c.workersIn
	}
	if c.denied.dir != "" { // first: a room may lie below it
		s.v1 = append(s.v1, c.denied)
	}
	if local < len(c.rooms) {
		r := &c.rooms[local]
		if r.v2 != "" {
			s.v2 = r.v2
		}
		s.v1 = append(s.v1, r.v1...)
	}
	return s
}

// frozen is the run's group of the v1 freezer, if it has one.
func (c *Containment) frozen() []v1Group {
	if c.Kind != run.Cgroup1 {
		return nil
	}
	return []v1Group{{c.Path, filepath.Dir(c.Path)}}
}

// Place puts a process that ran ahead, and what a wrapper has started, where Execute would have had it born.
func (c *Containment) Place(pid, local int) error {
	s, leaves := c.seat(local), seat{}
	for _, g := range c.ahead.v1 {
		// From the group that keeps it from devices it goes on to that of the workers: in between it would be kept from none.
		if g != c.ahead.denied || c.denied.dir == "" {
			leaves.v1 = append(leaves.v1, v1Group{dir: g.rest})
		}
	}
	if c.ahead.v2 != "" && s.v2 == "" {
		leaves.v2 = c.own
	}
	move := func(each int) error {
		if err := leaves.put(each); err != nil {
			return err
		}
		return s.put(each)
	}
	err := move(pid) // first, so that what it starts while the others are found is born there
	for _, each := range proc.Tree(pid)[1:] {
		err = errors.Join(err, move(each))
	}
	return err
}

// Groups are the directories of the groups besides the first one, each to be removed with what is below.
func (c *Containment) Groups() []string { return slices.Clone(c.tops) }
