package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/lab/sim"
)

// Report is what bellows simulate writes; the fields are a contract.
type Report struct {
	Runs []*Run `json:"runs"`
}

// Run is one simulation: what was asked and what came of it. The fields are a contract.
type Run struct {
	Policy string `json:"policy"`
	Trace  string `json:"trace"`
	Nodes  int    `json:"nodes"`
	sim.Summary
	// AdditionalJobsAt100 is how many more jobs than the baseline's had finished when
	// the baseline had finished 100; null without the baseline on the same trace and nodes.
	AdditionalJobsAt100 *int `json:"additional_jobs_at_100"`
	// AdditionalJobsPer100 is how many more jobs it trains in the time in which the
	// baseline trains 100, by the mean completions of those that finished under both; null likewise.
	AdditionalJobsPer100 *float64 `json:"additional_jobs_per_100"`
	DecisionMSMean       float64  `json:"decision_ms_mean"`
	DecisionMSP99        float64  `json:"decision_ms_p99"`
	CPUS                 float64  `json:"cpu_s"`
	LogSHA256            string   `json:"log_sha256"`
	// Reference compares with the solver of the settings; null without one.
	Reference *Reference `json:"reference,omitempty"`

	Result sim.Result `json:"-"`

	config sim.Config
	ended  atomic.Int64 // jobs, for Progress
}

// Progress is told now and then how many jobs of all runs have ended, and of how
// many, and last with done. It is called from one goroutine; nil = not at all.
type Progress func(ended, of int, done bool)

// Do makes the runs of settings that are Complete, runs them and compares them
// with the baseline. A solver that the settings name is closed when Do returns,
// also where a signal ends it.
func (s *Settings) Do(ctx context.Context, progress Progress) (done []*Run, err error) {
	var solver Solver
	if s.Lab.OpenSolver != nil && s.Solver != OwnSolver { // which may be a process of its own, not to be left behind
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		if solver, err = s.Lab.OpenSolver(ctx, s.Solver, s.SolverLimit); err != nil {
			return nil, err
		}
	}
	runs, err := s.runs(solver)
	if err == nil {
		err = Execute(ctx, runs, progress)
	}
	if solver != nil {
		err = errors.Join(err, solver.Close())
	}
	if err != nil {
		return nil, err
	}
	Compare(runs)
	return runs, nil
}

// Execute runs all runs on all cores, those with most jobs first, so that no core
// waits long for the last one.
func Execute(ctx context.Context, runs []*Run, progress Progress) error {
	next, failed := atomic.Int64{}, make([]error, len(runs))
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(runs[b].config.Jobs), len(runs[a].config.Jobs)) })
	before := processTime()
	var wg sync.WaitGroup
	for range min(len(runs), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(runs) {
					return
				}
				i := order[n]
				failed[i] = runs[i].run()
			}
		})
	}
	stop, watching := make(chan struct{}), sync.WaitGroup{}
	if progress != nil {
		watching.Go(func() { watch(runs, progress, stop) })
	}
	wg.Wait()
	shareOverhead(runs, processTime()-before)
	close(stop)
	watching.Wait()
	for i, err := range failed {
		if err != nil {
			return fmt.Errorf("%s on %s with %s: %w", runs[i].Trace, units.Count(runs[i].Nodes, "node"), runs[i].Policy, err)
		}
	}
	return ctx.Err()
}

// run runs one simulation on a thread of its own, whose processor time is its cost.
func (r *Run) run() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	begin := time.Now()
	r.config.Stopwatch = func() time.Duration { return time.Since(begin) }
	r.config.Progress = func(ended, _ int) { r.ended.Store(int64(ended)) }
	r.Result, err = sim.Run(r.config)
	if err != nil {
		return err
	}
	r.Summary = r.Result.Summary()
	r.LogSHA256 = r.Result.LogSHA256
	r.CPUS = (threadTime() - before).Seconds()
	var ms []float64
	for _, d := range r.Result.DecisionTimes {
		ms = append(ms, d.Seconds()*1000)
		r.DecisionMSMean += d.Seconds() * 1000 / float64(len(r.Result.DecisionTimes))
	}
	r.DecisionMSP99 = sim.Quantile(ms, 0.99)
	return nil
}

// rusageThread asks getrusage for the calling thread alone; package syscall has no name for it.
const rusageThread = 1

// threadTime is the processor time that the calling thread has used.
func threadTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processTime is the processor time that all threads have used.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// shareOverhead adds to each run its share of the time of other threads, most of
// which collects the garbage that the runs make.
func shareOverhead(runs []*Run, used time.Duration) {
	own := 0.0
	for _, r := range runs {
		own += r.CPUS
	}
	if own == 0 || used.Seconds() < own {
		return
	}
	for _, r := range runs {
		r.CPUS *= used.Seconds() / own
	}
}

const (
	// progressAfter is how long a batch runs before its progress is reported.
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
)

// watch reports the jobs that have ended, over all runs, until stop is closed.
func watch(runs []*Run, report Progress, stop <-chan struct{}) {
	of := 0
	for _, r := range runs {
		of += len(r.config.Jobs)
	}
	for tick := time.After(progressAfter); ; tick = time.After(progressEvery) {
		select {
		case <-stop:
			report(of, of, true)
			return
		case <-tick:
		}
		ended := 0
		for _, r := range runs {
			ended += int(r.ended.Load())
		}
		report(ended, of, false)
	}
}
