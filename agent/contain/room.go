package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// room is where one worker is, or what runs ahead, apart from the others: its rules apply to it alone.
type room struct {
	v2 string    // its group of cgroup v2; "" = the run's, if that has one
	v1 []v1Group // its groups of v1, each below the run's in that hierarchy

	memory   string // the directory that tells of its memory; "" = that is not limited
	memoryV2 bool   // which is one of v2
	bytes    uint64 // that it may have
}

// home finds where the groups lie that a controller is for: below the run's own group of cgroup v2, which may give the
// controller to its children then, or below a group of the run's name in the controller's own hierarchy of v1.
func (c *Containment) home(controller string) (top string, v2 bool, err error) {
	if c.own != "" && offers(c.own, controller) {
		if c.Kind != run.Cgroup2 {
			return "", true, fmt.Errorf("it takes cgroup v2 here, and workers are held by %s: set the agent's --containment to auto", c.Kind)
		}
		return c.Path, true, c.delegate(controller)
	}
	h := hierarchy{"cgroup", controller}
	if _, err = h.own(); err != nil {
		return "", false, fmt.Errorf("this node's kernel offers no %s controller to the agent, by cgroup v2 or v1: %w", controller, err)
	}
	top, err = c.top(h)
	return top, false, err
}

// top makes the group of the run's name in a hierarchy, unless it is there already for something else of the run.
func (c *Containment) top(h hierarchy) (string, error) {
	own, err := h.own()
	if err != nil {
		return "", err
	}
	top := filepath.Join(own, c.name)
	if slices.Contains(c.tops, top) || top == c.Path {
		return top, nil
	}
	if err = makeGroup(top); err != nil {
		return "", err
	}
	c.tops = append(c.tops, top)
	return top, nil
}

// bound puts a rule in force on the group of that name for a room.
func (c *Containment) bound(r *room, name string, what rule) error {
	top, v2, err := c.home(what.controller)
	if err != nil {
		return err
	}
	if v2 {
		if err = turnOn(top, what.controller); err != nil {
			return err
		}
	}
	dir := filepath.Join(top, name)
	if err = makeGroup(dir); err != nil && !errors.Is(err, os.ErrExist) { // for another rule
		return err
	}
	if v2 {
		if err = what.v2(dir); err != nil {
			return err
		}
		r.v2 = dir
	} else {
		if err = what.v1(dir); err != nil {
			return err
		}
		r.add(v1Group{dir, filepath.Dir(top)})
	}
	if what.memory > 0 {
		r.memory, r.memoryV2, r.bytes = dir, v2, what.memory
	}
	return nil
}

func (r *room) add(g v1Group) {
	if !slices.Contains(r.v1, g) {
		r.v1 = append(r.v1, g)
	}
}

// delegate makes a controller available to the children of our own cgroup. The
// kernel allows it only where no process is in a group but at its leaves, so that
// in a scope, which is the run's alone, the processes that are in it move into a leaf of their own.
func (c *Containment) delegate(controller string) error {
	err := turnOn(c.own, controller)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	const remedy = "run the agent by its systemd unit, which gives each generation a scope"
	if len(c.movable) == 0 {
		return fmt.Errorf("cgroup %s holds processes besides: %s", c.own, remedy)
	}
	leaf := filepath.Join(c.own, "shim") // it goes with the scope
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for _, pid := range c.movable {
		if err := set(leaf, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	if err := turnOn(c.own, controller); err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return nil
}

// seat is where a process is: at most one group of cgroup v2, and groups of v1.
type seat struct {
	v2 string
	v1 []v1Group // in the order in which they are entered: one may lie below another
}

// enter prepares for a process to be started there: release once it was. The caller has locked its
// goroutine to the thread, which is in the groups of v1 meanwhile.
func (s seat) enter(attr *syscall.SysProcAttr) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range slices.Backward(releases) {
			r()
		}
	}
	for _, g := range s.v1 {
		if err := g.enter(); err != nil {
			release()
			return nil, err
		}
		releases = append(releases, g.leave)
	}
	if s.v2 != "" {
		closed, err := cgroup(s.v2).enter(attr)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, closed)
	}
	return release, nil
}

// put moves a process there.
func (s seat) put(pid int) error {
	for _, g := range s.v1 {
		if err := set(g.dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	if s.v2 == "" {
		return nil
	}
	return set(s.v2, "cgroup.procs", strconv.Itoa(pid))
}
