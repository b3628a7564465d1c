package sweep

import (
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// Outside looks for processes of a run that are outside of its containment: they name its socket in their environment.
type Outside struct {
	Dir       string
	Owner     uint32 // uid of the workers
	Shim      run.Process
	Contained bool // a group holds all that the workers have started
}

// Kill sends SIGKILL to those that live. Seen reports whether no process of the run can live unseen.
func (o Outside) Kill() (left, seen bool, err error) {
	s := o.sweeper()
	if s.seen, err = observed.census(); err != nil {
		return false, false, err
	}
	found := s.seen.marked(s.dir, s.owner)
	return len(found) > 0, s.nothingHidden(), proc.KillEach(found)
}

func (o Outside) sweeper() *sweeper {
	return &sweeper{dir: o.Dir, owner: &o.Owner, shim: o.Shim, contained: o.Contained}
}
