package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// Group is a set of processes that the kernel keeps together, wherever they fork to.
type Group interface {
	// Kill sends SIGKILL to all processes inside. A group that is gone has none.
	Kill() error
	// Look returns the processes inside. populated may be true where none can be named. A group that is gone has none.
	Look() (pids []int, populated bool, err error)
	// Remove removes the group, which has to be empty. It is no error that the group is gone.
	Remove() error
}

// Config says which containment is wanted.
type Config struct {
	// Name is that of the run's groups, in each hierarchy of the kernel's. It is unique on the machine.
	Name string
	// Kind is one of package run's; "" = the strongest that there is.
	Kind string
	// Movable are the processes in this one's own cgroup v2, if that is a scope of the run's alone; nil = there may
	// be others'. To have a controller for the workers' groups they may have to move.
	Movable []int
}

// Containment holds everything that the workers of one run start. It is not for concurrent use, but Execute,
// ExecuteAhead, Place and AheadStarved are for other goroutines than that of the rest.
type Containment struct {
	Kind        string // one of package run's
	Path        string // of the run's group; "" = weak
	NotStronger error  // why it is not a stronger kind

	Processes    int   // how many all workers may have together, threads included; 0 = any number
	Unbound      error // why it is any number
	AheadUnbound error // why what runs ahead is bound less than it was asked for

	name    string
	group   Group  // nil = weak
	own     string // the cgroup v2 in which this process began; "" = there is none
	movable []int
	tops    []string // groups of the run's besides the first

	base      string  // the group of v2 that workers are in where nothing else says another; "" = none
	workersIn string  // one below the run's, where that may have no processes itself; "" = that is not so
	denied    v1Group // keeps workers from devices that are not theirs; zero = none, or a filter on base does
	rooms     []room  // of the workers, by local rank; nil = not limited yet
	ahead     ahead

	// apart is a child of this process that is no worker's: it looks at what the owner
	// has, takes no lock, and may hang as what it looks at may. 0 = there is none.
	apart int
}

// Subreaper has this process get what its descendants leave behind.
func Subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}

// New makes the run's group. An error says that the kind that is asked for cannot be had on this node.
func New(o Config) (*Containment, error) {
	c := &Containment{Kind: run.Weak, name: o.Name, movable: o.Movable}
	if own, err := (hierarchy{fstype: "cgroup2"}).own(); err == nil {
		c.own = own
	}
	if o.Kind == "" || o.Kind == run.Cgroup2 {
		g, err := newCgroup(o.Name)
		if err == nil {
			c.Kind, c.Path, c.group, c.base = run.Cgroup2, string(g), g, string(g)
			return c, nil
		}
		c.NotStronger = errors.Join(c.NotStronger, err)
	}
	if o.Kind == "" || o.Kind == run.Cgroup1 {
		g, err := newFreezer(o.Name)
		if err == nil {
			c.Kind, c.Path, c.group = run.Cgroup1, string(g), g
			return c, nil
		}
		c.NotStronger = errors.Join(c.NotStronger, err)
	}
	if o.Kind != "" && o.Kind != run.Weak {
		return nil, fmt.Errorf("containment %s cannot be had on this node: %w: set the agent's --containment to another, or to auto", o.Kind, c.NotStronger)
	}
	return c, nil
}

// Open is the group that another shim has made, by its kind and directory; nil if it had none.
func Open(kind, path string) Group {
	switch {
	case path == "":
		return nil
	case kind == run.Cgroup1:
		return freezer(path)
	default: // also what shims recorded that knew of no other
		return cgroup(path)
	}
}

// Grouped reports whether a group holds all that the workers start.
func (c *Containment) Grouped() bool { return c.group != nil }

// Except has a child of this process that is no worker's not count as inside. 0 = there is none any more.
func (c *Containment) Except(pid int) { c.apart = pid }

// KillAhead sends SIGKILL to all that is inside, like kill, while there are no workers
// yet but parked ones.
func (c *Containment) KillAhead() error {
	var groups []Group
	if c.Kind == run.Cgroup2 {
		for _, leaf := range below(c.Path) {
			if strings.HasPrefix(filepath.Base(leaf), aheadGroup+"-") {
				groups = append(groups, cgroup(leaf))
			}
		}
	} else if c.group != nil {
		groups = []Group{c.group}
	}
	left, err := c.Left()
	return errors.Join(err, KillAll(groups, left))
}

// Kill sends SIGKILL to all that is inside. What forks at that moment may need
// another call unless there is a cgroup; the caller repeats it until empty. With a group
// it asks for this process's children only, since a list of all processes takes long on a large
// machine: what has been moved out of the group is one of them once its parent has ended.
func (c *Containment) Kill() error {
	var err error
	find := c.Left
	if c.group != nil {
		if err = KillAll([]Group{c.group}, nil); err == nil {
			find = c.children
		}
	}
	if !proc.HasChildren() {
		return err
	}
	left, errList := find()
	return errors.Join(err, errList, proc.KillEach(left))
}

// Empty reports whether nothing is inside any more. Children that have ended
// count until they are reaped.
func (c *Containment) Empty() (bool, error) {
	if proc.HasChildren() {
		if c.apart == 0 {
			return false, nil
		}
		if left, err := c.Left(); err != nil || len(left) > 0 {
			return false, err
		}
	}
	if c.group == nil {
		return true, nil
	}
	_, populated, err := c.group.Look()
	return !populated, err
}

// Left names the living processes inside, by pid.
func (c *Containment) Left() ([]proc.Stat, error) {
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	found := proc.Merged(nil, proc.FamilyOf(all).Descendants(map[int]bool{os.Getpid(): true}))
	if c.group != nil {
		pids, _, _ := c.group.Look() // whether it can be looked into is what empty tells
		found = proc.Merged(found, proc.Living(pids))
	}
	return slices.DeleteFunc(found, func(s proc.Stat) bool { return s.PID == c.apart }), nil
}

// children names the living children of this process, but for a look.
func (c *Containment) children() ([]proc.Stat, error) {
	pids, err := proc.Children()
	if err != nil { // a kernel without CONFIG_PROC_CHILDREN
		return c.Left()
	}
	return slices.DeleteFunc(proc.Living(pids), func(s proc.Stat) bool { return s.PID == c.apart }), nil
}

// Remove takes the run's groups away, empty as they are.
func (c *Containment) Remove() error {
	err := RemoveAll(c.tops)
	if c.group != nil {
		err = errors.Join(err, c.group.Remove())
	}
	return err
}

// KillAll sends SIGKILL once to all that the groups hold and to each of the
// processes. It waits for none of them to end. Every kill of a run uses it,
// and repeats it until nothing is left, since what forks at that moment may be
// missed where there is no cgroup.
func KillAll(groups []Group, found []proc.Stat) error {
	var err error
	for _, g := range groups {
		err = errors.Join(err, g.Kill())
	}
	return errors.Join(err, proc.KillEach(found))
}

// execute starts a program in a seat.
func execute(s seat, program string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	release, err := s.enter(attr.Sys)
	if err != nil {
		return 0, err
	}
	defer release()
	pid, err = syscall.ForkExec(program, argv, attr)
	switch {
	case errors.Is(err, unix.ENOENT):
		err = fmt.Errorf("%w: the interpreter named in its first line is missing on this node", err)
	case errors.Is(err, unix.ENOEXEC):
		err = fmt.Errorf("%w: begin the script with a line like #!/usr/bin/env python3, or submit the interpreter as the command", err)
	}
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", program, err)
	}
	return pid, nil
}
