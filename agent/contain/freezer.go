package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
)

// freezeWait is how long processes may take to freeze: one that waits for a disk
// does not at all. Killing goes on without it then, and is repeated.
const freezeWait = 50 * time.Millisecond

// freezer is a cgroup of our own in the v1 hierarchy of the freezer, for machines
// whose cgroup v2 is of no use to us. Nothing kills a v1 cgroup at one stroke; but
// what is frozen cannot fork, so that a list of its processes stays true while
// they are killed. They die when they are thawed.
type freezer string

// newFreezer makes a child of our own freezer cgroup. An error means: not on this machine, not for this user.
func newFreezer(name string) (freezer, error) {
	parent, err := hierarchy{"cgroup", "freezer"}.own()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	g := freezer(dir)
	if err := g.freeze(); err != nil { // it is empty: this only shows that we may
		return "", errors.Join(err, g.Remove())
	}
	if err := g.thaw(); err != nil {
		return "", errors.Join(err, g.Remove())
	}
	return g, nil
}

// Kill freezes the group and all below, sends SIGKILL to each process, and thaws.
func (g freezer) Kill() error {
	if err := g.freeze(); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("kill cgroup %s: %w", g, err)
	}
	var failed error
	for end := time.Now().Add(freezeWait); !g.frozen() && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // nothing tells
	}
	for _, pid := range g.inside() {
		if s, err := proc.ReadStat(pid); err == nil {
			failed = errors.Join(failed, s.Kill())
		}
	}
	if err := errors.Join(failed, g.thaw()); err != nil {
		return fmt.Errorf("kill cgroup %s: %w", g, err)
	}
	return nil
}

// Look names the processes in the group and below. What has ended and only waits
// to be reaped does not count.
func (g freezer) Look() (pids []int, populated bool, err error) {
	if _, err := os.Stat(string(g)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, true, fmt.Errorf("look into cgroup %s: %w", g, err)
	}
	pids = g.inside()
	return pids, slices.ContainsFunc(pids, func(pid int) bool {
		s, err := proc.ReadStat(pid)
		return err == nil && s.Lives()
	}), nil
}

// Remove takes the empty group away.
func (g freezer) Remove() error { return removeTree(string(g)) }

// inside is members without ourselves: one of our threads may just be there to start a worker.
func (g freezer) inside() []int {
	return slices.DeleteFunc(Members(string(g)), func(pid int) bool { return pid == os.Getpid() })
}

func (g freezer) freeze() error { return setFreezer(string(g), "FROZEN") }

// thaw thaws what is below as well: a job that may, as root's, can have frozen a
// group of its own, in which nothing would die.
func (g freezer) thaw() error {
	var err error
	for _, dir := range below(string(g)) {
		if e := setFreezer(dir, "THAWED"); !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (g freezer) frozen() bool {
	b, err := os.ReadFile(filepath.Join(string(g), "freezer.state"))
	return err != nil || strings.TrimSpace(string(b)) == "FROZEN"
}

func setFreezer(dir, state string) error {
	return os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(state), 0)
}

// v1Group is a group of a v1 hierarchy, and the group of that hierarchy in which this process is by itself.
type v1Group struct{ dir, rest string }

// enter moves the calling thread into the group, because a child is born where
// the thread is that forks; leave moves it back. So the child is inside from its
// first instruction on, which moving it afterwards would not achieve. The caller
// has locked its goroutine to the thread.
func (g v1Group) enter() error {
	if err := os.WriteFile(filepath.Join(g.dir, "tasks"), fmt.Appendf(nil, "%d", unix.Gettid()), 0); err != nil {
		return fmt.Errorf("enter cgroup %s: %w", g.dir, err)
	}
	return nil
}

// leave moves the calling thread back to where it was. A thread that stays inside
// prevents only the removal of the directory, which then returns an error.
func (g v1Group) leave() {
	_ = os.WriteFile(filepath.Join(g.rest, "tasks"), fmt.Appendf(nil, "%d", unix.Gettid()), 0)
}
