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
)

// The kinds of containment, strongest first.
const (
	Cgroup2 = "cgroup2" // a cgroup v2, killed at one stroke
	Cgroup1 = "cgroup1" // a cgroup of the v1 freezer: frozen, killed, thawed
	Weak    = "weak"    // the shim as subreaper
)

// group is a set of processes that the kernel keeps together, wherever they fork to.
type group interface {
	// enter prepares for a process to be started in the group: release once it was.
	enter(attr *syscall.SysProcAttr) (release func(), err error)
	// kill sends SIGKILL to all that is inside. Gone is killed.
	kill() error
	// look names what is inside; populated may be true without a name. Gone is empty.
	look() (pids []int, populated bool, err error)
	// remove takes the group away, empty as it is. Gone is removed.
	remove() error
}

// containment holds everything that the workers start. Two fences stand around it:
//
//   - a group of its own, where the machine and the user's rights allow one;
//   - always, the shim as subreaper: whatever a worker leaves behind, also with
//     setsid and a double fork, becomes the shim's child and cannot become
//     anybody else's. "The shim has no children" is exact, and needs no rights.
//
// The second alone is called weak for one reason: it is gone with the shim, and
// a sweep must then look for the processes by their environment.
type containment struct {
	kind  string
	path  string // of the group
	group group  // nil = weak
	why   error  // why it is not a stronger kind
	// own is the cgroup v2 in which this process began; "" = there is none. To have one controller it may
	// have to move into a leaf, where no other is to be had.
	own string
	// home is the group below that of the run in which workers are; "" = in that itself.
	home  string
	ahead aheadBound
	// limits hold each worker apart; nil = there are none.
	limits *limits
	// processes is how many all workers may have together; 0 = any number, because of unbound.
	processes int
	unbound   error
	// apart is a child of the shim's that is no worker's: it looks at what the owner
	// has, takes no lock, and may hang as what it looks at may. 0 = there is none.
	apart int
	// devices is one more group, which keeps workers from devices that are not
	// theirs; nil = there is none, or the first one does.
	devices     group
	devicesPath string
}

// newContainment makes this process the subreaper, and a group of that name: of the kind
// that is wanted, or of the strongest that there is if none is.
func newContainment(name, want string) (*containment, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	return newGroup(name, want)
}

// newGroup is the first of the two.
func newGroup(name, want string) (*containment, error) {
	c := &containment{kind: Weak}
	if own, err := (hierarchy{fstype: "cgroup2"}).own(); err == nil {
		c.own = own
	}
	if want == "" || want == Cgroup2 {
		g, err := newCgroup(name)
		if err == nil {
			return &containment{kind: Cgroup2, path: string(g), group: g, own: c.own}, nil
		}
		c.why = errors.Join(c.why, err)
	}
	if want == "" || want == Cgroup1 {
		g, err := newFreezer(name)
		if err == nil {
			return &containment{kind: Cgroup1, path: string(g), group: g, why: c.why, own: c.own}, nil
		}
		c.why = errors.Join(c.why, err)
	}
	if want != "" && want != Weak {
		return nil, fmt.Errorf("containment %s cannot be had on this node: %w: set the agent's --containment to another, or to auto", want, c.why)
	}
	return c, nil
}

// openGroup is the group that another shim has made; nil if it had none.
func openGroup(rec runRecord) group {
	switch {
	case rec.Cgroup == "":
		return nil
	case rec.Containment == Cgroup1:
		return freezer(rec.Cgroup)
	default: // also what shims recorded that knew of no other
		return cgroup(rec.Cgroup)
	}
}

func (c *containment) enter(attr *syscall.SysProcAttr) (release func(), err error) {
	switch {
	case c.home != "":
		return cgroup(c.home).enter(attr)
	case c.group == nil:
		return func() {}, nil
	}
	return c.group.enter(attr)
}

// aheadGroup begins the names of the groups in which processes run ahead in a cgroup v2: groups
// with limits lie beside, and Linux 6.18 kills what is started in a group that was
// killed before, so that each process has its own.
const aheadGroup = "ahead-"

// holdAhead is enter for a process that runs ahead, the n-th of the run.
func (c *containment) holdAhead(attr *syscall.SysProcAttr, n int) (release func(), err error) {
	leaf, into := "", c.enter
	if c.kind == Cgroup2 {
		leaf = filepath.Join(c.path, aheadGroup+strconv.Itoa(n))
		if err = os.Mkdir(leaf, 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
		into = cgroup(leaf).enter
	}
	leave, err := c.ahead.enter(leaf, attr)
	if err != nil {
		return nil, err
	}
	out, err := into(attr)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { out(); leave() }, nil
}

// killAhead sends SIGKILL to all that is inside, like kill, while there are no workers
// yet but parked ones.
func (c *containment) killAhead() error {
	var groups []group
	if c.kind == Cgroup2 {
		for _, leaf := range cgroupsBelow(c.path) {
			if strings.HasPrefix(filepath.Base(leaf), aheadGroup) {
				groups = append(groups, cgroup(leaf))
			}
		}
	} else if c.group != nil {
		groups = []group{c.group}
	}
	left, err := c.left()
	return errors.Join(err, killAll(groups, left))
}

// placeTree puts a process that was parked, and what a wrapper has started, where hold would have had it born.
func (c *containment) placeTree(pid, local int) error {
	err := c.place(pid, local)
	if all, errList := processes(); errList == nil {
		for _, p := range familyOf(all).descendants(map[int]bool{pid: true}) {
			err = errors.Join(err, c.place(p.pid, local))
		}
	}
	return err
}

// place puts one process there.
func (c *containment) place(pid, local int) error {
	var dirs []string
	for _, g := range c.ahead.groups {
		if !g.devices || c.devices == nil { // else it goes on to a group that has no processes beside groups
			dirs = append(dirs, g.rest)
		}
	}
	if c.devices != nil {
		dirs = append(dirs, c.devicesPath)
	}
	into := c.home
	if c.kind == Cgroup2 && into == "" {
		into = c.path
	}
	if c.limits != nil {
		b := c.limits.workers[local]
		dirs = append(dirs, b.enter...)
		if b.born != "" {
			into = b.born
		}
	}
	if into != "" {
		dirs = append(dirs, into)
	}
	for _, dir := range dirs {
		if err := set(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// kill sends SIGKILL to all that is inside. What forks at that moment may need
// another call unless there is a cgroup; the caller repeats it until empty. With a group
// it asks for this process's children only, since a list of all processes takes long on a large
// machine: what has been moved out of the group is one of them once its parent has ended.
func (c *containment) kill() error {
	var err error
	find := c.left
	if c.group != nil {
		if err = killAll([]group{c.group}, nil); err == nil {
			find = c.children
		}
	}
	if !hasChildren() {
		return err
	}
	left, errList := find()
	return errors.Join(err, errList, killAll(nil, left))
}

// empty reports whether nothing is inside any more. Children that have ended
// count until they are reaped.
func (c *containment) empty() (bool, error) {
	if hasChildren() {
		if c.apart == 0 {
			return false, nil
		}
		if left, err := c.left(); err != nil || len(left) > 0 {
			return false, err
		}
	}
	if c.group == nil {
		return true, nil
	}
	_, populated, err := c.group.look()
	return !populated, err
}

// left names the living processes inside, by pid.
func (c *containment) left() ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	found := merged(nil, familyOf(all).descendants(map[int]bool{os.Getpid(): true}))
	if c.group != nil {
		pids, _, _ := c.group.look() // whether it can be looked into is what empty tells
		found = merged(found, living(pids))
	}
	return slices.DeleteFunc(found, func(s stat) bool { return s.pid == c.apart }), nil
}

// children names the living children of this process, but for a look.
func (c *containment) children() ([]stat, error) {
	pids, err := children()
	if err != nil { // a kernel without CONFIG_PROC_CHILDREN
		return c.left()
	}
	return slices.DeleteFunc(living(pids), func(s stat) bool { return s.pid == c.apart }), nil
}

func (c *containment) remove() error {
	var err error
	if c.limits != nil {
		err = removeTops(c.limits.tops)
	}
	err = errors.Join(err, removeTops(c.ahead.tops))
	if c.devices != nil {
		err = errors.Join(err, c.devices.remove())
	}
	if c.group != nil {
		err = errors.Join(err, c.group.remove())
	}
	return err
}

// hasChildren reports whether this process has any child, living or waiting to be reaped.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}
