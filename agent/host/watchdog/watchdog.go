// Package watchdog kills workers that live past their deadline because their shim does not kill them.
//
// It promises to wait for nothing: not for etcd, a disk, a log or a shim, nor for the agent's loop, which tells it after
// each step what there is, and may hang. What it needs to know lies in memory. What it was told last is good enough, since
// nothing moves a deadline any more. So it imports neither the store nor the loop.
//
//	w := watchdog.New(times, func(jg record.JobGen, err error) { … })
//	go w.Run(ctx)
//	w.Watch(map[record.JobGen]watchdog.Guarded{jg: {Run: observed, Deadline: deadline, Dir: dir}})
package watchdog

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/record"
)

const (
	// every is how often deadlines are looked at. Go's timers stand still while
	// a machine sleeps, so that none is set for a deadline.
	every = 200 * time.Millisecond
	// longestPause is the longest pause between two kills of what does not die: each
	// looks through all processes.
	longestPause = 5 * time.Second
)

// Watchdog is told of runs, and kills those that are overdue. Its mutex is held for looks into memory only; any
// goroutine may call its methods.
type Watchdog struct {
	times  agent.Times
	killed func(record.JobGen, error)
	wg     sync.WaitGroup // kills in progress

	mu      sync.Mutex
	runs    map[record.JobGen]Guarded
	reaches map[record.JobGen]sweep.Reach
	kills   map[record.JobGen]*kills
}

// Guarded is a run whose workers have a deadline.
type Guarded struct {
	agent.Run
	Deadline int64 // nanoseconds of CLOCK_BOOTTIME
	Dir      string
}

// kills are those of one run. Each of the three things that they do may hang by itself.
type kills struct {
	next                        int64 // when the next is due
	pause                       time.Duration
	killing, marking, reporting bool // in progress
}

// New makes one that is told of no run. killed is called for each kill with what went wrong with it, in a goroutine that may wait.
func New(times agent.Times, killed func(record.JobGen, error)) *Watchdog {
	return &Watchdog{times: times, killed: killed, reaches: map[record.JobGen]sweep.Reach{}, kills: map[record.JobGen]*kills{}}
}

// Watch replaces what there is.
func (w *Watchdog) Watch(runs map[record.JobGen]Guarded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = runs
}

// Learn notes how a run is reached.
func (w *Watchdog) Learn(jg record.JobGen, reach sweep.Reach) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reaches[jg] = reach
}

// Forget drops what is known of a run that is gone for good.
func (w *Watchdog) Forget(jg record.JobGen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reaches, jg)
	delete(w.kills, jg)
}

// Run looks at the deadlines until the context ends, and returns once no kill is in progress.
func (w *Watchdog) Run(ctx context.Context) {
	defer w.wg.Wait()
	tick := time.NewTicker(every)
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
func (w *Watchdog) look(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for jg, g := range w.runs {
		what := agent.Overdue(now, g.Deadline, g.Run, w.times)
		if what == agent.KillNothing {
			continue
		}
		k := w.kills[jg]
		if k == nil {
			k = &kills{}
			w.kills[jg] = k
		}
		if now >= k.next {
			k.pause = min(max(2*k.pause, every), longestPause)
			k.next = now + int64(k.pause)
			w.kill(jg, g, what)
		}
	}
}

// kill kills in goroutines of their own: a run that is slow to be killed holds up no
// other, nor does the search for processes that only their environment tells of hold
// up the rest. The caller holds the lock.
func (w *Watchdog) kill(jg record.JobGen, g Guarded, what agent.Kill) {
	k := w.kills[jg]
	reach, known := w.reaches[jg]
	w.begin(&k.killing, func() {
		var err error
		if !known { // it is only being started
			reach, err = sweep.ReachOf(g.Dir)
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
func (w *Watchdog) begin(busy *bool, f func()) {
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
