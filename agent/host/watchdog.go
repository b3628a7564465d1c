package host

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/record"
)

const (
	// watchdogEvery is how often deadlines are looked at. Go's timers stand still while
	// a machine sleeps, so that none is set for a deadline.
	watchdogEvery = 200 * time.Millisecond
	// strikeLast is the longest pause between two strikes at what does not die: each
	// looks through all processes.
	strikeLast = 5 * time.Second
)

// witness is the second to see to it that workers die at their deadline: it kills
// those of a shim that does not. What it needs to know lies in memory, and it
// waits for nothing: not for etcd, a disk, a log or a shim, nor for the owner, who
// tells it after each step what there is, and may hang. What it was told last is
// good enough then, since nobody moves a deadline any more.
type watchdog struct {
	times agent.Times
	// struck hears of each strike and what went wrong with it, in a goroutine that may wait.
	struck func(record.JobGen, error)
	wg     sync.WaitGroup // kills under way

	mu      sync.Mutex // held for a look into memory only
	runs    map[record.JobGen]guarded
	reaches map[record.JobGen]shim.Reach
	strikes map[record.JobGen]*strikes
}

// guarded is a run whose workers have a deadline.
type guarded struct {
	agent.Run
	deadline int64
	dir      string
}

// strikes are those at one run. What they do may hang, each by itself.
type strikes struct {
	next                      int64 // when the next is due
	pause                     time.Duration
	killing, marking, telling bool // under way
}

func newWatchdog(cfg Config, struck func(record.JobGen, error)) *watchdog {
	return &watchdog{
		times:   agent.Times{Grace: cfg.grace(), Patience: shim.UnkillableAfter + fence.Grace},
		struck:  struck,
		reaches: map[record.JobGen]shim.Reach{}, strikes: map[record.JobGen]*strikes{},
	}
}

// watch replaces what there is.
func (w *watchdog) watch(runs map[record.JobGen]guarded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = runs
}

// learn notes how a run is reached.
func (w *watchdog) learn(jg record.JobGen, reach shim.Reach) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reaches[jg] = reach
}

// forget drops what is known of a run that is gone for good.
func (w *watchdog) forget(jg record.JobGen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reaches, jg)
	delete(w.strikes, jg)
}

// run looks at the deadlines until the context ends, and returns once no kill is under way.
func (w *watchdog) run(ctx context.Context) {
	defer w.wg.Wait()
	tick := time.NewTicker(watchdogEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(shim.Boottime())
		}
	}
}

// look strikes where that is due.
func (w *watchdog) look(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for jg, g := range w.runs {
		what := agent.Overdue(now, g.deadline, g.Run, w.times)
		if what == agent.StrikeNothing {
			continue
		}
		s := w.strikes[jg]
		if s == nil {
			s = &strikes{}
			w.strikes[jg] = s
		}
		if now >= s.next {
			s.pause = min(max(2*s.pause, watchdogEvery), strikeLast)
			s.next = now + int64(s.pause)
			w.strike(jg, g, what)
		}
	}
}

// strike kills, beside: a run that is slow to be killed holds up no other, nor does
// the look for those that only their environment tells of hold up the rest.
func (w *watchdog) strike(jg record.JobGen, g guarded, what agent.Strike) {
	s := w.strikes[jg]
	reach, known := w.reaches[jg]
	w.begin(&s.killing, func() {
		var err error
		if !known { // it is only being started
			reach, err = shim.ReachOf(g.dir)
		}
		if errors.Is(err, os.ErrNotExist) {
			return // and its shim has not come so far as to execute anything
		}
		if err == nil {
			var workers []record.Worker
			if g.Report != nil {
				workers = g.Report.Workers
			}
			err = reach.Strike(workers, what == agent.StrikeWorkers)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.begin(&s.telling, func() { w.struck(jg, err) })
	})
	if known {
		w.begin(&s.marking, func() {
			if err := reach.StrikeMarked(); err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.begin(&s.telling, func() { w.struck(jg, err) })
			}
		})
	}
}

// begin runs f in a goroutine of its own, unless the last of its kind is still under
// way. The caller holds the lock.
func (w *watchdog) begin(under *bool, f func()) {
	if *under {
		return
	}
	*under = true
	w.wg.Go(func() {
		f()
		w.mu.Lock()
		defer w.mu.Unlock()
		*under = false
	})
}

// guard tells the witness which runs have a deadline that binds them.
func (n *node) guard() {
	runs := map[record.JobGen]guarded{}
	for _, o := range n.goals.observed().Runs {
		jg := generationOf(o.Job, o.Generation)
		if r := n.runs.all[jg]; r.wish.deadline != 0 && r.wish.deadline != fence.Never {
			runs[jg] = guarded{o, r.wish.deadline, r.dir}
		}
	}
	n.watchdog.watch(runs)
}

// killed takes in that the watchdog has killed a run, or what was in its way.
func (n *node) killed(jg record.JobGen, err error) {
	n.post(func() {
		r, log := n.runs.all[jg], n.logger(jg)
		if err != nil {
			log.Error().Err(err).Msg("cannot kill workers past their deadline yet, trying again")
		}
		if r != nil && !r.killed {
			r.killed, r.changed = true, time.Now()
			log.Error().Msg("workers lived past their fencing deadline: killed them, as their shim did not")
		}
	})
}
