package host

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/record"
)

const (
	// watchdogEvery is how often deadlines are looked at. Go's timers stand still while
	// a machine sleeps, so that none is set for a deadline.
	watchdogEvery = 200 * time.Millisecond
	// longestPause is the longest pause between two kills of what does not die: each
	// looks through all processes.
	longestPause = 5 * time.Second
)

// watchdog kills workers that live past their deadline because their shim does not
// kill them. What it needs to know lies in memory, and it waits for nothing: not for
// etcd, a disk, a log or a shim, nor for the loop, which tells it after each step
// what there is, and may hang. What it was told last is good enough then, since
// nothing moves a deadline any more. Its mutex is held for looks into memory only;
// any goroutine may call its methods.
type watchdog struct {
	times agent.Times
	// killed is called for each kill with what went wrong with it, in a goroutine that may wait.
	killed func(record.JobGen, error)
	wg     sync.WaitGroup // kills in progress

	mu      sync.Mutex
	runs    map[record.JobGen]guarded
	reaches map[record.JobGen]sweep.Reach
	kills   map[record.JobGen]*kills
}

// guarded is a run whose workers have a deadline.
type guarded struct {
	agent.Run
	deadline int64
	dir      string
}

// kills are those of one run. Each of the three things that they do may hang by itself.
type kills struct {
	next                        int64 // when the next is due
	pause                       time.Duration
	killing, marking, reporting bool // in progress
}

func newWatchdog(cfg Config, killed func(record.JobGen, error)) *watchdog {
	return &watchdog{
		times:   agent.Times{Grace: cfg.grace(), Patience: run.UnkillableAfter + fence.Grace},
		killed:  killed,
		reaches: map[record.JobGen]sweep.Reach{}, kills: map[record.JobGen]*kills{},
	}
}

// watch replaces what there is.
func (w *watchdog) watch(runs map[record.JobGen]guarded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = runs
}

// learn notes how a run is reached.
func (w *watchdog) learn(jg record.JobGen, reach sweep.Reach) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reaches[jg] = reach
}

// forget drops what is known of a run that is gone for good.
func (w *watchdog) forget(jg record.JobGen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reaches, jg)
	delete(w.kills, jg)
}

// run looks at the deadlines until the context ends, and returns once no kill is in progress.
func (w *watchdog) run(ctx context.Context) {
	defer w.wg.Wait()
	tick := time.NewTicker(watchdogEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(proc.Boottime())
		}
	}
}

// look kills where that is due.
func (w *watchdog) look(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for jg, g := range w.runs {
		what := agent.Overdue(now, g.deadline, g.Run, w.times)
		if what == agent.KillNothing {
			continue
		}
		k := w.kills[jg]
		if k == nil {
			k = &kills{}
			w.kills[jg] = k
		}
		if now >= k.next {
			k.pause = min(max(2*k.pause, watchdogEvery), longestPause)
			k.next = now + int64(k.pause)
			w.kill(jg, g, what)
		}
	}
}

// kill kills in goroutines of their own: a run that is slow to be killed holds up no
// other, nor does the search for processes that only their environment tells of hold
// up the rest. The caller holds the lock.
func (w *watchdog) kill(jg record.JobGen, g guarded, what agent.Kill) {
	k := w.kills[jg]
	reach, known := w.reaches[jg]
	w.begin(&k.killing, func() {
		var err error
		if !known { // it is only being started
			reach, err = sweep.ReachOf(g.dir)
		}
		if errors.Is(err, os.ErrNotExist) {
			return // and its shim has not come so far as to execute anything
		}
		if err == nil {
			var workers []record.Worker
			if g.Report != nil {
				workers = g.Report.Workers
			}
			err = reach.Kill(workers, what == agent.KillWorkers)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.begin(&k.reporting, func() { w.killed(jg, err) })
	})
	if known {
		w.begin(&k.marking, func() {
			if err := reach.KillMarked(); err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.begin(&k.reporting, func() { w.killed(jg, err) })
			}
		})
	}
}

// begin runs f in a goroutine of its own, unless the last of its kind is still in
// progress. The caller holds the lock.
func (w *watchdog) begin(busy *bool, f func()) {
	if *busy {
		return
	}
	*busy = true
	w.wg.Go(func() {
		f()
		w.mu.Lock()
		defer w.mu.Unlock()
		*busy = false
	})
}
