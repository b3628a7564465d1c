package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	scanLane      agent.Lane = "scan"
	unadoptedLane agent.Lane = "unadopted "
)

// errLooking is why it is not known yet which runs there are.
var errLooking = errors.New("looking through all processes for runs whose directory is gone")

// adoption is what earlier agents of this node have left: it adopts the runs whose
// shims live, sweeps what cannot be adopted, and knows whether all has been found
// yet. The loop owns it.
type adoption struct {
	*shared
	runs  *runs
	shims *shims

	unadopted map[string]leftRun // run directories that could not be adopted and are not swept yet
	unscanned error              // why it is not known which runs there are; nil once it is
	said      complaint          // of that, in the log
	began     int64              // as of which revision this agent has known the node's records; 0 = not yet
}

func newAdoption(sh *shared, rs *runs, ss *shims) *adoption {
	return &adoption{shared: sh, runs: rs, shims: ss, unadopted: map[string]leftRun{}}
}

// leftRun is a run that cannot be adopted and whose sweep is not over.
type leftRun struct {
	of   record.JobGen // zero if its order cannot be read
	lost bool          // only processes name its directory: it is not ours to remove
}

// scanned reports whether all that earlier agents have left here of a generation is
// known, and what of it could not be adopted is over: only then does it have no run
// if none is known.
func (ad *adoption) scanned(jg record.JobGen) bool {
	if ad.unscanned != nil {
		return false
	}
	for dir, s := range ad.unadopted {
		if s.of == jg || ad.mayBeOf(dir, jg) {
			return false
		}
	}
	return true
}

// mayBeOf reports whether a directory bears the name of a generation's, in
// whichever place. What names it may be made up: others are not held up by it.
func (ad *adoption) mayBeOf(dir string, jg record.JobGen) bool {
	name, plan := filepath.Base(dir), ad.records.planOf(jg)
	if r := ad.runs.all[jg]; r != nil && name == filepath.Base(r.dir) {
		return true
	}
	if plan.Exists() {
		return name == runName(jg, plan.Value.World.Nonce)
	}
	return mayName(name, jg)
}

// findings are the runs that lie in the places that were looked through.
type findings struct {
	runs      []rundir.Run
	unadopted []rundir.Unreadable
	err       error
}

func scan(roots []string) (all findings) {
	for _, root := range roots {
		runs, unadopted, err := rundir.Scan(root)
		all.runs = append(all.runs, runs...)
		all.unadopted = append(all.unadopted, unadopted...)
		all.err = errors.Join(all.err, err)
	}
	return all
}

// scanAgain looks once more where the last look has failed. Until one succeeds
// nothing is done for generations without a run.
func (ad *adoption) scanAgain() {
	at := loop.Lane{What: scanLane}
	if ad.unscanned == nil || ad.Busy(at) {
		return
	}
	roots := ad.data.runDirs()
	ad.Beside(at, func(context.Context) func() {
		found := scan(roots)
		return func() {
			ad.adopt(found)
			ad.lookForLost()
		}
	})
}

// lookForLost looks through all processes for runs whose directories are gone, once
// those that are there are known. A process that cannot be read has this look fail
// until it is gone: neither what was adopted nor the node's lease waits for it.
func (ad *adoption) lookForLost() {
	if !errors.Is(ad.unscanned, errLooking) {
		return
	}
	roots := ad.data.runDirs()
	ad.Beside(loop.Lane{What: scanLane}, func(ctx context.Context) func() {
		dirs, err := sweep.Lost(roots...)
		if err != nil {
			loop.Rest(ctx, loop.RetryLast) // a process that hangs does so for a while
		}
		return func() { ad.foundLost(dirs, err) }
	})
}

func (ad *adoption) foundLost(dirs []string, err error) {
	switch ad.unscanned = err; {
	case err == nil && ad.said.over():
		ad.Log.Info().Msg("it is known again which runs are here")
	case err == nil:
		ad.Log.Debug().Msg("it is known what earlier agents have left here")
	case ad.said.due(err, time.Now()):
		ad.Log.Error().Err(err).Msg("cannot tell which runs have lost their directory: nothing is started or acknowledged as stopped until that is known")
	}
	for _, dir := range dirs {
		if _, known := ad.unadopted[dir]; known || ad.keeps(dir) {
			continue
		}
		ad.Log.Error().Str("dir", dir).Msg("processes of a run live, but its directory is gone: they are killed")
		ad.unadopted[dir] = leftRun{lost: true}
	}
}

// keeps reports whether a run of ours has a directory, or had it until it was lost.
func (ad *adoption) keeps(dir string) bool {
	for _, r := range ad.runs.all {
		if r.dir == dir && r.shim != agent.Absent {
			return true
		}
	}
	return false
}

// adopt takes over what earlier agents of this node have left running. Workers do
// not notice. What cannot be taken over is swept.
func (ad *adoption) adopt(found findings) {
	ad.unscanned = cmp.Or(found.err, errLooking)
	if found.err != nil && ad.said.due(found.err, time.Now()) {
		ad.Log.Error().Err(found.err).Msg("cannot tell which runs are here: nothing is started or acknowledged as stopped until that is known")
	}
	// Of two directories of a generation the one that bears its name goes first.
	slices.SortStableFunc(found.runs, func(a, b rundir.Run) int { return ad.misplaced(a) - ad.misplaced(b) })
	for _, f := range found.runs {
		jg := generationOf(f.Order.World.Job, f.Order.World.Generation)
		log := ad.Logger(jg)
		if other := ad.runs.all[jg]; other != nil {
			ad.adoptSecond(f, other)
			continue
		}
		r := ad.runs.newRun(jg, f.Order.World.Nonce, f.Dir, agent.Dead)
		r.order, r.process, r.binding = f.Order, f.Shim, bindingOf(f.Order)
		r.saves.ReadLost(r.dir)
		if report, err := rundir.ReadReport(f.Dir); err == nil && report.Shim == f.Shim {
			r.report = &report
			r.saved = agent.Remember(r.saved, report.Saves)
		}
		if f.Shim != (run.Process{}) && proc.Alive(f.Shim) {
			r.shim = agent.Live
			ad.shims.attend(r, f.Shim)
			log.Info().Int("pid", f.Shim.PID).Msg("adopted a run")
		} else {
			log.Warn().Str("dir", f.Dir).Msg("found a run whose shim is gone")
		}
	}
	if found.err != nil {
		return // one of them may be a copy of a run that is yet to be found
	}
	for _, s := range found.unadopted {
		if r := ad.copied(s); r != nil {
			log := ad.Logger(r.jg)
			log.Error().Str("dir", s.Dir).Err(s.Why).Msg("a damaged copy of a run's directory: left alone")
			continue
		}
		ad.Log.Error().Str("dir", s.Dir).Err(s.Why).Msg("found a run that cannot be adopted: what lives of it is killed")
		ad.unadopted[s.Dir] = leftRun{}
	}
}

// copied is the adopted run that a directory names the same processes as; nil if it
// is none's copy, also because the run was adopted from a copy of this one.
func (ad *adoption) copied(s rundir.Unreadable) *hosted {
	for _, r := range ad.runs.all {
		if s.Shim == (run.Process{}) || r.process != s.Shim {
			continue
		}
		own := runName(r.jg, r.nonce)
		if filepath.Base(s.Dir) != own || filepath.Base(r.dir) == own {
			return r
		}
	}
	return nil
}

// adoptSecond judges a second directory of a generation: a copy of the first's
// names the same processes, which are in good hands; any other is swept.
func (ad *adoption) adoptSecond(f rundir.Run, first *hosted) {
	log := ad.Logger(first.jg)
	switch {
	case f.Dir == first.dir: // found before
		return
	case f.Shim == first.process:
		log.Error().Str("dir", f.Dir).Msg("a second run directory of the same generation: left alone")
		return
	}
	log.Error().Str("dir", f.Dir).Msg("a second run directory of the same generation: what lives of it is killed")
	ad.unadopted[f.Dir] = leftRun{of: first.jg}
}

func (ad *adoption) misplaced(f rundir.Run) int {
	if f.Dir == ad.runDir(generationOf(f.Order.World.Job, f.Order.World.Generation), f.Order.World.Nonce) {
		return 0
	}
	return 1
}

// sweepUnadopted ends what lives of runs that cannot be adopted, and removes their directories.
func (ad *adoption) sweepUnadopted() {
	for dir, s := range ad.unadopted {
		at := loop.Lane{What: unadoptedLane + agent.Lane(dir)}
		if ad.Busy(at) {
			continue
		}
		owner := ad.ownerOf(dir)
		ad.Beside(at, func(ctx context.Context) func() {
			err := sweepDir(ctx, func() error { return sweep.Sweep(dir, ad.cfg.LockDir, owner) })
			if err != nil {
				sweepFailed(ctx, ad.Log.With().Str("dir", dir).Logger(), err, "cannot sweep a run that cannot be adopted yet, trying again")
				return func() {}
			}
			if s.lost {
				ad.Log.Info().Str("dir", dir).Msg("nothing lives any more of a run whose directory is gone")
				return func() { delete(ad.unadopted, dir) }
			}
			if err := os.RemoveAll(dir); err != nil {
				ad.Log.Error().Str("dir", dir).Err(err).Msg("nothing of this run lives, but its directory cannot be removed: remove it by hand")
			}
			return func() { delete(ad.unadopted, dir) }
		})
	}
}

// ownerOf is whose the generation is whose name a directory bears; nil = unknown.
func (ad *adoption) ownerOf(dir string) *cluster.Owner {
	for _, jg := range ad.runs.current() {
		if ad.mayBeOf(dir, jg) {
			return ad.records.ownerOf(jg)
		}
	}
	return nil
}

// over reports whether it was found out that nothing lives of a run without a shim.
func (ad *adoption) over(r *hosted) bool {
	if r.shim != agent.Absent {
		return r.sweep.done
	}
	return r.sweep.done && ad.scanned(r.jg) || ad.fresh(r.jg)
}

// accounted reports whether each generation that may have processes here has a
// run, or is known to have none.
func (ad *adoption) accounted() bool {
	return ad.unscanned == nil && !slices.ContainsFunc(ad.runs.current(), func(jg record.JobGen) bool {
		collected := ad.records.known(genPart(jg)) && !ad.records.planOf(jg).Exists() && !ad.records.said(jg).Value.Begun
		stopped := ad.records.acks(jg).Stopped.Exists()
		return !ad.scanned(jg) || ad.runs.all[jg] == nil && !collected && !stopped && !ad.fresh(jg)
	})
}

// noteBegin notes as of when this agent has known the node's records.
func (ad *adoption) noteBegin() {
	if ad.began == 0 {
		ad.began = ad.records.listed[selfPart]
	}
}

// fresh reports whether no earlier agent can have started a generation here: it
// was planned when this one had the node's data directory, or, of one without a plan, this one
// was the first to say that it prepares anything of the job.
func (ad *adoption) fresh(jg record.JobGen) bool {
	if ad.began == 0 || !ad.scanned(jg) {
		return false
	}
	if plan := ad.records.planOf(jg); plan.Exists() {
		return plan.Create > ad.began
	}
	return !ad.records.granted(jg) && ad.records.said(jg).Create > ad.began
}
