package sweep

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
)

// Orphans kills what a dead shim has left until nothing is. Only the kernel is
// asked, and none of the run's files: a disk may hang.
func Orphans(dir string, owner *uint32) {
	s := &sweeper{dir: dir, owner: owner, under: os.Getpid()}
	_ = s.killListed() // what could not be killed is tried again
	repeat(func() (done bool, longest time.Duration) {
		reap()
		left, err := s.kill()
		return err == nil && len(left) == 0 && s.emptied() && !proc.HasChildren(), time.Second
	})
	_ = s.removeGroups() // the agent's sweep tells what is in the way
}

// Descendants kills what descends from this process until nothing does.
func Descendants() {
	repeat(func() (done bool, longest time.Duration) {
		if reap(); !proc.HasChildren() {
			return true, 0
		}
		if l, err := observed.listing(); err == nil {
			_ = proc.KillEach(l.family.Descendants(map[int]bool{os.Getpid(): true})) // tried again
		}
		return false, time.Second
	})
}

// reap takes note of children that have ended.
func reap() {
	for pid := 1; pid > 0; {
		pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	}
}

// emptied reports whether nothing is in the run's groups.
func (s *sweeper) emptied() bool {
	return !slices.ContainsFunc(s.groups, func(g contain.Group) bool {
		_, inside, err := g.Look()
		return inside || err != nil
	})
}
