package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/record"
)

// Reach is what leads to a run's processes, kept in memory: who has it can kill
// them without a disk, and without the shim.
type Reach struct {
	dir string
	run rundir.Record
}

// ReachOf reads a run's record, which its shim has written before it answers Dial.
func ReachOf(dir string) (Reach, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Reach{}, fmt.Errorf("read how to reach a run: %w", err)
	}
	reach := Reach{dir: dir}
	if reach.run, err = rundir.ReadAnyRecord(dir); err != nil {
		return Reach{}, fmt.Errorf("read how to reach run %s: %w", dir, err)
	}
	reach.run.Owner = rundir.OwnerOf(dir, reach.run)
	return reach, nil
}

// Kill sends SIGKILL to all that can be found of the run by its cgroups, its
// shim, its workers, and by descent from these; to the shim itself unless it is
// spared. It looks at /proc and /sys/fs/cgroup only, and waits for no process, so
// that it is what to do first. It may be repeated; what forks meanwhile, where
// there is no cgroup, needs that.
func (r Reach) Kill(workers []record.Worker, spare bool) error {
	s := sweeper{dir: r.dir, limits: r.run.Limits, shim: r.run.Shim}
	if g := contain.Open(r.run.Containment, r.run.Cgroup); g != nil {
		s.groups = append(s.groups, g)
	}
	for _, w := range workers {
		s.workers = append(s.workers, run.Process{PID: w.PID, StartTime: w.StartTime, BootID: r.run.Shim.BootID})
	}
	all, err := proc.All()
	// Found before the shim dies: what descends from it shows no more then.
	found := s.inside(&listing{procs: all, family: proc.FamilyOf(all)}, nil)
	if spare {
		found = slices.DeleteFunc(found, func(p proc.Stat) bool { return p.PID == r.run.Shim.PID })
	}
	if err = errors.Join(err, contain.KillAll(s.groups, found)); err != nil {
		return fmt.Errorf("kill run %s: %w", r.dir, err)
	}
	return nil
}

// KillMarked does the same to those that only their environment tells of. It
// reads the memory of all processes, and so takes a while where one of them hangs. The
// error also names a process that could not be read, which may be one of the run's.
func (r Reach) KillMarked() error { return r.killMarked(observed) }

func (r Reach) killMarked(o *observer) error {
	c, err := o.census()
	if err == nil {
		err = errors.Join(proc.KillEach(c.marked(r.dir, r.run.Owner)), c.unanswered())
	}
	if err != nil {
		return fmt.Errorf("kill run %s: %w", r.dir, err)
	}
	return nil
}
