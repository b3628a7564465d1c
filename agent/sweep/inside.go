package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
)

// Insiders are a run's processes that live: its shim, its workers, and what they
// have started, as far as the run's cgroup or their descent tells.
type Insiders struct {
	PIDs []int
	Err  error // why they cannot be told
}

// Inside lists them for each run in dirs. A directory that is no run, or not yet,
// has none. An error means that nothing can be told of any.
func Inside(dirs []string) ([]Insiders, error) {
	all, err := proc.All() // once for all runs: there may be many of both
	if err != nil {
		return nil, fmt.Errorf("look into runs: %w", err)
	}
	l := &listing{procs: all, family: proc.FamilyOf(all)}
	lists := make([]Insiders, len(dirs))
	for i, dir := range dirs {
		if lists[i].PIDs, err = insideRun(dir, l); err != nil {
			lists[i] = Insiders{Err: fmt.Errorf("look into run %s: %w", dir, err)}
		}
	}
	return lists, nil
}

// insideRun finds a run's among all processes.
func insideRun(dir string, l *listing) (pids []int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	rec, err := rundir.ReadRecord(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	s := sweeper{dir: dir, limits: rec.Limits, shim: rec.Shim, workers: rundir.Reported(dir, rec)}
	if g := contain.Open(rec.Containment, rec.Cgroup); g != nil {
		if _, _, err := g.Look(); err != nil {
			return nil, err
		}
		s.groups = append(s.groups, g)
	}
	for _, p := range s.inside(l, nil) {
		pids = append(pids, p.PID)
	}
	return pids, nil
}
