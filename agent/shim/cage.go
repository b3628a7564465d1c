package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kinds of containment.
const (
	cgroup2 = "cgroup2"
	weak    = "weak"
)

// cage holds everything that the workers start. Two fences stand around it:
//
//   - a cgroup v2 of its own, where the machine and the user's rights allow one;
//   - always, the shim as subreaper: whatever a worker leaves behind, also with
//     setsid and a double fork, becomes the shim's child and cannot become
//     anybody else's. "The shim has no children" is exact, and needs no rights.
//
// The second alone is called weak for one reason: it is gone with the shim, and
// a sweep must then look for the processes by their environment.
type cage struct {
	group cgroup // "" = weak
	why   error  // why it is weak
}

// newCage makes this process the subreaper and tries for a cgroup of that name.
func newCage(name string) (*cage, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	group, err := newCgroup(name)
	return &cage{group: group, why: err}, nil
}

func (c *cage) kind() string {
	if c.group == "" {
		return weak
	}
	return cgroup2
}

func (c *cage) enter(attr *syscall.SysProcAttr) (release func(), err error) {
	if c.group == "" {
		return func() {}, nil
	}
	return c.group.enter(attr)
}

// kill sends SIGKILL to all that is inside. What forks at that moment may need
// another call unless there is a cgroup; the caller repeats it until empty.
func (c *cage) kill() error {
	var err error
	if c.group != "" {
		err = c.group.kill()
	}
	if !hasChildren() {
		return err
	}
	left, err2 := c.left()
	err = errors.Join(err, err2)
	for _, s := range left {
		err = errors.Join(err, s.kill())
	}
	return err
}

// empty reports whether nothing is inside any more. Children that have ended
// count until they are reaped.
func (c *cage) empty() (bool, error) {
	if hasChildren() {
		return false, nil
	}
	if c.group == "" {
		return true, nil
	}
	populated, err := c.group.populated()
	return !populated, err
}

// left names the living processes inside, by pid.
func (c *cage) left() ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	found := descendants(all, map[int]bool{os.Getpid(): true})
	if c.group != "" {
		for _, pid := range c.group.pids() {
			if s, err := readStat(pid); err == nil && s.lives() && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(a, b stat) int { return a.pid - b.pid })
	return found, nil
}

func (c *cage) remove() error {
	if c.group == "" {
		return nil
	}
	return c.group.remove()
}

// hasChildren reports whether this process has any child, living or waiting to be reaped.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}
