package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/record"
)

const (
	scanLane  agent.Lane = "scan"
	strayLane agent.Lane = "stray "
)

// errLooking is why it is not known yet which runs there are.
var errLooking = errors.New("looking through all processes for runs whose directory is gone")

// stray is a run that nobody can adopt and whose sweep is not over.
type stray struct {
	of   record.JobGen // zero if its order cannot be read
	lost bool          // only processes name its directory: it is not ours to remove
}

// scanned reports whether all that earlier agents have left here of a generation is
// known, and what of it could not be adopted is over: only then does it have no run
// if none is known.
func (n *node) scanned(jg record.JobGen) bool {
	if n.unscanned != nil {
		return false
	}
	for dir, s := range n.strays {
		if s.of == jg || n.mayBeOf(dir, jg) {
			return false
		}
	}
	return true
}

// mayBeOf reports whether a directory bears the name of a generation's, in
// whichever place. What names it may be made up: others are not held up by it.
func (n *node) mayBeOf(dir string, jg record.JobGen) bool {
	name, plan := filepath.Base(dir), n.planOf(jg)
	if r := n.runs[jg]; r != nil && name == filepath.Base(r.dir) {
		return true
	}
	own := filepath.Base(n.runDir(jg, plan.Value.World.Nonce))
	if plan.Exists() {
		return name == own
	}
	// Without a plan its nonce is not known, which is in the middle of the name.
	end := strings.LastIndex(own, "-g")
	return len(name) == len(own) && strings.HasPrefix(name, own[:end-runHash]) && strings.HasSuffix(name, own[end:])
}

// findings are the runs that lie in the places that were looked through.
type findings struct {
	runs   []shim.Run
	strays []shim.Stray
	err    error
}

func scan(roots []string) (all findings) {
	for _, root := range roots {
		runs, strays, err := shim.Scan(root)
		all.runs = append(all.runs, runs...)
		all.strays = append(all.strays, strays...)
		all.err = errors.Join(all.err, err)
	}
	return all
}

// scanAgain looks once more where the last look has failed. Until one succeeds
// generations without a run are let be.
func (n *node) scanAgain() {
	at := lane{what: scanLane}
	if n.unscanned == nil || n.lanes[at] {
		return
	}
	roots := n.data.runDirs()
	n.beside(at, func(context.Context) func() {
		found := scan(roots)
		return func() {
			n.adopt(found)
			n.lookForLost()
		}
	})
}

// lookForLost looks through all processes for runs whose directories are gone, once
// those that are there are known. A process that a driver holds may hold up this look
// for ever: neither what was adopted nor the node's lease waits for it.
func (n *node) lookForLost() {
	if !errors.Is(n.unscanned, errLooking) {
		return
	}
	roots := n.data.runDirs()
	n.beside(lane{what: scanLane}, func(context.Context) func() {
		var dirs []string
		var err error
		for _, root := range roots {
			found, errRoot := shim.Lost(root)
			dirs, err = append(dirs, found...), errors.Join(err, errRoot)
		}
		return func() { n.foundLost(dirs, err) }
	})
}

func (n *node) foundLost(dirs []string, err error) {
	if n.unscanned = err; err != nil {
		n.log.Error().Err(err).Msg("cannot tell which runs have lost their directory: nothing is started or acknowledged as stopped until that is known")
	}
	for _, dir := range dirs {
		if _, known := n.strays[dir]; known || n.keeps(dir) {
			continue
		}
		n.log.Error().Str("dir", dir).Msg("processes of a run live, but its directory is gone: they are killed")
		n.strays[dir] = stray{lost: true}
	}
}

// keeps reports whether a run of ours has a directory, or had it until it was lost.
func (n *node) keeps(dir string) bool {
	for _, r := range n.runs {
		if r.dir == dir && r.shim != agent.Absent {
			return true
		}
	}
	return false
}

// adopt takes over what earlier agents of this node have left running. Workers do
// not notice. What cannot be taken over is swept.
func (n *node) adopt(found findings) {
	n.unscanned = cmp.Or(found.err, errLooking)
	if found.err != nil {
		n.log.Error().Err(found.err).Msg("cannot tell which runs are here: nothing is started or acknowledged as stopped until that is known")
	}
	// Of two directories of a generation the one that bears its name goes first.
	slices.SortStableFunc(found.runs, func(a, b shim.Run) int { return n.misplaced(a) - n.misplaced(b) })
	for _, f := range found.runs {
		jg := generationOf(f.Order.World.Job, f.Order.World.Generation)
		log := n.logger(jg)
		if other := n.runs[jg]; other != nil {
			n.adoptSecond(f, other)
			continue
		}
		r := n.newRun(jg, f.Order.World.Nonce, f.Dir, agent.Dead)
		r.order, r.process = f.Order, f.Shim
		r.readLost()
		if report, err := shim.ReadReport(f.Dir); err == nil && report.Shim == f.Shim {
			r.report = &report
			r.remember(report.Saves)
		}
		if f.Shim != (shim.Process{}) && shim.Alive(f.Shim) {
			r.shim = agent.Live
			n.attend(r, f.Shim)
			log.Info().Int("pid", f.Shim.PID).Msg("adopted a run")
		} else {
			log.Warn().Str("dir", f.Dir).Msg("found a run whose shim is gone")
		}
	}
	if found.err != nil {
		return // one of them may be a copy of a run that is yet to be found
	}
	for _, s := range found.strays {
		if r := n.copied(s); r != nil {
			log := n.logger(r.jg)
			log.Error().Str("dir", s.Dir).Err(s.Why).Msg("a damaged copy of a run's directory: left alone")
			continue
		}
		n.log.Error().Str("dir", s.Dir).Err(s.Why).Msg("found a run that cannot be adopted: what lives of it is killed")
		n.strays[s.Dir] = stray{}
	}
}

// copied is the adopted run that a directory names the same processes as; nil if it
// is none's copy, also because the run was adopted from a copy of this one.
func (n *node) copied(s shim.Stray) *run {
	for _, r := range n.runs {
		if s.Shim == (shim.Process{}) || r.process != s.Shim {
			continue
		}
		own := filepath.Base(n.runDir(r.jg, r.nonce))
		if filepath.Base(s.Dir) != own || filepath.Base(r.dir) == own {
			return r
		}
	}
	return nil
}

// adoptSecond judges a second directory of a generation: a copy of the first's
// names the same processes, which are in good hands; any other is swept.
func (n *node) adoptSecond(f shim.Run, first *run) {
	log := n.logger(first.jg)
	switch {
	case f.Dir == first.dir: // found before
		return
	case f.Shim == first.process:
		log.Error().Str("dir", f.Dir).Msg("a second run directory of the same generation: left alone")
		return
	}
	log.Error().Str("dir", f.Dir).Msg("a second run directory of the same generation: what lives of it is killed")
	n.strays[f.Dir] = stray{of: first.jg}
}

func (n *node) misplaced(f shim.Run) int {
	if f.Dir == n.runDir(generationOf(f.Order.World.Job, f.Order.World.Generation), f.Order.World.Nonce) {
		return 0
	}
	return 1
}

// sweepStrays ends what lives of runs that nobody can adopt, and removes their directories.
func (n *node) sweepStrays() {
	for dir, s := range n.strays {
		at := lane{what: strayLane + agent.Lane(dir)}
		if n.lanes[at] {
			continue
		}
		n.beside(at, func(ctx context.Context) func() {
			err := shim.Sweep(dir, n.cfg.LockDir)
			if err != nil {
				n.log.Error().Str("dir", dir).Err(err).Msg("cannot sweep a run that cannot be adopted yet, trying again")
				rest(ctx, retryLast)
				return func() {}
			}
			if s.lost {
				n.log.Info().Str("dir", dir).Msg("nothing lives any more of a run whose directory is gone")
				return func() { delete(n.strays, dir) }
			}
			if err := os.RemoveAll(dir); err != nil {
				n.log.Error().Str("dir", dir).Err(err).Msg("nothing of this run lives, but its directory cannot be removed: remove it by hand")
			}
			return func() { delete(n.strays, dir) }
		})
	}
}

// over reports whether it was found out that nothing lives of a run without a shim.
func (n *node) over(r *run) bool {
	if r.shim != agent.Absent {
		return r.swept
	}
	return r.swept && n.scanned(r.jg) || n.fresh(r.jg, n.planOf(r.jg))
}

func (n *node) planOf(jg record.JobGen) record.Versioned[record.Plan] {
	return n.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan
}

// accounted reports whether each generation that may have processes here has a
// run, or is known to have none.
func (n *node) accounted() bool {
	return n.unscanned == nil && !slices.ContainsFunc(n.current(), func(jg record.JobGen) bool {
		plan := n.planOf(jg)
		collected := n.records.known(genPart(jg)) && !plan.Exists()
		stopped := n.acks(jg).Stopped.Exists()
		return !n.scanned(jg) || n.runs[jg] == nil && !collected && !stopped && !n.fresh(jg, plan)
	})
}

// noticeBegin notes as of when this agent has known the node's records.
func (n *node) noticeBegin() {
	if n.began == 0 {
		n.began = n.records.listed[selfPart]
	}
}

// fresh reports whether no earlier agent can have started a generation here: it
// was planned when this one had the node's data directory.
func (n *node) fresh(jg record.JobGen, plan record.Versioned[record.Plan]) bool {
	return n.began != 0 && plan.Create > n.began && n.scanned(jg)
}
