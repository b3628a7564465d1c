package host

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/record"
)

const (
	scanLane  agent.Lane = "scan"
	strayLane agent.Lane = "stray "
)

// scanned reports whether all that earlier agents have left here is known, and
// what could not be adopted is over: only then does a generation without a run
// have none.
func (n *node) scanned() bool { return n.unscanned == nil && len(n.strays) == 0 }

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
		return func() { n.adopt(found) }
	})
}

// adopt takes over what earlier agents of this node have left running. Workers do
// not notice. What cannot be taken over is swept.
func (n *node) adopt(found findings) {
	if n.unscanned = found.err; found.err != nil {
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
	for _, s := range found.strays {
		n.log.Error().Str("dir", s.Dir).Err(s.Why).Msg("found a run that cannot be adopted: what lives of it is killed")
		n.strays[s.Dir] = true
	}
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
	n.strays[f.Dir] = true
}

func (n *node) misplaced(f shim.Run) int {
	if f.Dir == n.runDir(generationOf(f.Order.World.Job, f.Order.World.Generation), f.Order.World.Nonce) {
		return 0
	}
	return 1
}

// sweepStrays ends what lives of runs that nobody can adopt, and removes their directories.
func (n *node) sweepStrays() {
	for dir := range n.strays {
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
	return r.swept && n.scanned() || n.fresh(r.jg, n.planOf(r.jg))
}

func (n *node) planOf(jg record.JobGen) record.Versioned[record.Plan] {
	return n.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan
}

// accounted reports whether each generation that may have processes here has a
// run, or is known to have none.
func (n *node) accounted() bool {
	return n.scanned() && !slices.ContainsFunc(n.current(), func(jg record.JobGen) bool {
		plan := n.planOf(jg)
		collected := n.records.known(genPart(jg)) && !plan.Exists()
		stopped := n.acks(jg).Stopped.Exists()
		return n.runs[jg] == nil && !collected && !stopped && !n.fresh(jg, plan)
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
	return n.unscanned == nil && n.began != 0 && plan.Create > n.began && !n.strays[n.runDir(jg, plan.Value.World.Nonce)]
}
