package shim

import (
	"maps"
	"runtime"
	"slices"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/sdk"
)

// ahead is the part that has a prepared run's processes run ahead, and keeps them parked. The loop owns it, but
// for what park and release do while it cannot be taken away.
//
// A parked process is the worker itself, executed early: with the job's own command, as its owner, in the
// run's containment, but without devices and without what only a plan tells. It has run the script up to the
// first place where that would look at anything that a plan, another process or the moment decides, or would change
// anything outside (sdk/ahead.py). At START it is told the plan, and goes on from there. No process is
// forked: what a script computes before that place it computes as in any start.
type ahead struct {
	*shared

	given     bool  // what runs ahead was given up
	calmUntil int64 // from then on they have their share of the processors
	hurried   bool
	cleared   chan struct{} // what an attempt has left is to be killed
	pauses    pauses
	executed  int            // how many processes were executed, each in a group of its own
	living    []run.Process  // those that run ahead or are parked
	parked    []*warm.Parked // those that wait for their orders
}

// begin has so many processes more run ahead.
func (a *ahead) begin(n int) {
	a.facts.Ahead.Working, a.facts.Ahead.Failed = true, ""
	a.calmUntil, a.hurried = proc.Boottime()+int64(warm.CalmFor), false
	go a.park(a.order, n, a.calmUntil)
}

// step does what is due of what goes on beside the loop.
func (a *ahead) step(now int64) {
	if a.cleared != nil && !a.state.Killing() {
		if a.clear(now) {
			a.living = nil
			close(a.cleared)
			a.cleared = nil
		}
	}
	if !a.facts.Ahead.Working || a.given || a.hurried || len(a.living) == 0 {
		return
	}
	if now < a.calmUntil {
		a.alarm.at(a.calmUntil)
		return
	}
	a.hurried = true
	for _, p := range a.living {
		if err := warm.Hurry(p.PID); err != nil {
			a.log.Warn().Err(err).Msg("what runs ahead goes on as the last")
		}
	}
}

// look looks at the processes' memory, and whether they live.
func (a *ahead) look() {
	f := &a.facts.Ahead
	f.Parked, f.Living, f.Memory, f.Most = nil, len(a.living), 0, 0
	for _, p := range a.parked {
		f.Parked = append(f.Parked, run.Parked{Place: p.Place, Memory: proc.Memory(p.Process.PID), Dead: !proc.Alive(p.Process)})
	}
	for _, p := range a.living {
		has := proc.Memory(p.PID)
		f.Memory += has
		f.Most = max(f.Most, has)
	}
}

// giveUp lets go of all that runs ahead.
func (a *ahead) giveUp(g run.GiveUp) {
	a.given = true
	a.log.Info().Str("why", g.Why).Msg("nothing is parked: workers are executed at their start")
	for _, p := range a.parked {
		p.Close()
	}
	a.parked, a.living, a.facts.Ahead.Parked = nil, nil, nil // their pids are others' once they are reaped
	if g.Heavy {
		go warm.Learn(a.order.LearnedFile, sdk.EarlyLesson) // the next ones need less
	}
}

// clear kills what runs ahead or is parked, and all that it has started. It reports whether nothing is left.
func (a *ahead) clear(now int64) bool {
	if err := a.containment.KillAhead(); err != nil {
		a.log.Error().Err(err).Msg("kill what runs ahead")
	}
	a.reap() // also what has ended while it was not to be reaped
	empty, err := a.containment.Empty()
	if err != nil {
		a.log.Error().Err(err).Msg("look for what ran ahead")
	}
	if !empty {
		a.alarm.at(now + a.pauses.next())
	}
	return empty && err == nil
}

// park runs beside the loop. Its thread lives as long as the processes, which die with it.
func (a *ahead) park(order run.Order, n int, calmUntil int64) {
	runtime.LockOSThread() // never unlocked
	all, err := a.parkAll(order, n, calmUntil)
	a.post(func() {
		a.facts.Ahead.Working = false
		switch {
		case a.state.Killing() || a.given:
			for _, p := range all {
				p.Close()
			}
		case err != nil:
			a.facts.Ahead.Failed = cluster.Printable(err.Error())
		default:
			a.parked = append(a.parked, all...)
			a.look()
		}
	})
	<-a.done
}

// parkAll looks at what the job needs of this node, and has processes run ahead.
func (a *ahead) parkAll(order run.Order, n int, calmUntil int64) ([]*warm.Parked, error) {
	started := func(pid int) { a.post(func() { a.containment.Except(pid) }) }
	found, err := precheck.Question{Dir: a.dir, Order: order, Waiting: func(string) {}, Started: started}.Ask(a.abort, a.id)
	a.post(func() { a.containment.Except(0) })
	if err != nil {
		return nil, err
	}
	order.Env = maps.Clone(order.Env)
	if order.Env == nil {
		order.Env = map[string]string{}
	}
	maps.Copy(order.Env, found.Secrets)
	return warm.Parking{
		Dir: a.dir, Order: order, Program: found.Program, Shebang: found.Shebang, Identity: a.id,
		Containment: a.containment, Loop: a, Log: a.log, CalmUntil: calmUntil,
	}.Park(a.abort, n)
}

// MayExecute implements warm.Loop.
func (a *ahead) MayExecute() (n int, may bool) {
	type answer struct {
		n   int
		may bool
	}
	said := make(chan answer, 1)
	a.post(func() {
		a.facts.Ahead.Executing = !a.state.Killing() && !a.given
		a.executed++
		said <- answer{a.executed, a.facts.Ahead.Executing}
	})
	select {
	case got := <-said:
		return got.n, got.may
	case <-a.done:
		return 0, false
	}
}

// Executed implements warm.Loop.
func (a *ahead) Executed(p *run.Process) {
	a.post(func() {
		if a.facts.Ahead.Executing = false; p != nil && !a.given {
			a.living = append(a.living, *p)
		}
		a.reap() // what ended meanwhile
	})
}

// Clear implements warm.Loop.
func (a *ahead) Clear(p run.Process, alone bool) {
	cleared := make(chan struct{})
	a.post(func() {
		if len(a.parked) == 0 && !alone {
			a.cleared = cleared
			return
		}
		proc.KillTree(p.PID) // beside others that are parked, and of which this is none
		a.living = slices.DeleteFunc(a.living, func(l run.Process) bool { return l == p })
		close(cleared)
	})
	select {
	case <-cleared:
	case <-a.done:
	}
}

// Unwanted implements warm.Loop.
func (a *ahead) Unwanted() bool {
	said := make(chan bool, 1)
	a.post(func() { said <- a.state.Killing() || a.given })
	select {
	case is := <-said:
		return is
	case <-a.done:
		return true
	}
}
