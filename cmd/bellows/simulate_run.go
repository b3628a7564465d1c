package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/output"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/lab/sim"
)

// report is what simulate writes; the fields are a contract.
type report struct {
	Runs []*simulated `json:"runs"`
}

// simulated is one run: what was asked and what came of it.
type simulated struct {
	Policy string `json:"policy"`
	Trace  string `json:"trace"`
	Nodes  int    `json:"nodes"`
	sim.Summary
	// AdditionalJobsAt100 is how many more jobs than greedy's had finished when
	// greedy had finished 100; null without greedy on the same trace and nodes.
	AdditionalJobsAt100 *int `json:"additional_jobs_at_100"`
	// AdditionalJobsPer100 is how many more jobs it trains in the time in which
	// greedy trains 100, by the mean completions of those that finished under both; null likewise.
	AdditionalJobsPer100 *float64 `json:"additional_jobs_per_100"`
	DecisionMSMean       float64  `json:"decision_ms_mean"`
	DecisionMSP99        float64  `json:"decision_ms_p99"`
	CPUS                 float64  `json:"cpu_s"`
	LogSHA256            string   `json:"log_sha256"`
	// Reference is what came of --solver; null of our own.
	Reference *refereed `json:"reference,omitempty"`

	config sim.Config
	result sim.Result
	ended  atomic.Int64 // jobs, for the progress bar
}

// runAll runs everything on all cores, the runs with most jobs first, so that
// none of them is left over at the end; it shows how far it has come where somebody watches.
func runAll(ctx context.Context, runs []*simulated, s output.Style) ([]*simulated, error) {
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
	if s.Terminal {
		watching.Go(func() { watch(os.Stderr, runs, s, stop) })
	}
	wg.Wait()
	shareOverhead(runs, processTime()-before)
	close(stop)
	watching.Wait()
	for i, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("%s on %s with %s: %w", runs[i].Trace, units.Count(runs[i].Nodes, "node"), runs[i].Policy, err)
		}
	}
	return runs, ctx.Err()
}

// run runs one simulation on a thread of its own, whose processor time is its cost.
func (r *simulated) run() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	begin := time.Now()
	r.config.Stopwatch = func() time.Duration { return time.Since(begin) }
	r.config.Progress = func(ended, _ int) { r.ended.Store(int64(ended)) }
	r.result, err = sim.Run(r.config)
	if err != nil {
		return err
	}
	r.Summary = r.result.Summary()
	r.LogSHA256 = r.result.LogSHA256
	r.CPUS = (threadTime() - before).Seconds()
	var ms []float64
	for _, d := range r.result.DecisionTimes {
		ms = append(ms, d.Seconds()*1000)
		r.DecisionMSMean += d.Seconds() * 1000 / float64(len(r.result.DecisionTimes))
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

// shareOverhead adds to each run its part of what other threads did meanwhile,
// which is mostly to collect the garbage that the runs make.
func shareOverhead(runs []*simulated, used time.Duration) {
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

// baseline is the policy that additional_jobs_at_100 compares with.
const baseline = "greedy"

// compare fills in what needs two runs.
func compare(runs []*simulated) {
	for _, base := range runs {
		if base.Policy != baseline {
			continue
		}
		at, ok := base.result.NthEnd(100)
		for _, r := range runs {
			if r.Trace != base.Trace || r.Nodes != base.Nodes {
				continue
			}
			if ok {
				more := r.result.FinishedBy(at) - 100
				r.AdditionalJobsAt100 = &more
			}
			if theirs, own := completionsOfBoth(base, r); own > 0 {
				more := 100 * (theirs/own - 1)
				r.AdditionalJobsPer100 = &more
			}
		}
	}
}

// completionsOfBoth adds up the completions of the jobs that finished in both
// of two runs of the same jobs. Where users stop jobs, who is faster finishes
// more of them, most of all long ones, and would look the slower for it.
func completionsOfBoth(a, b *simulated) (x, y float64) {
	for i, o := range a.result.Jobs {
		if p := b.result.Jobs[i]; o.Phase == cluster.Succeeded && p.Phase == cluster.Succeeded {
			x += (o.End - o.Submit).Seconds()
			y += (p.End - p.Submit).Seconds()
		}
	}
	return x, y
}

const (
	// progressAfter is how long a run is silent: short ones need no bar.
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
	progressWidth = 30
)

// watch draws a bar of the jobs that have ended, over all runs, until stop is closed.
func watch(w io.Writer, runs []*simulated, s output.Style, stop <-chan struct{}) {
	of := 0
	for _, r := range runs {
		of += len(r.config.Jobs)
	}
	drawn := false
	for tick := time.After(progressAfter); ; tick = time.After(progressEvery) {
		select {
		case <-stop:
			if drawn {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		case <-tick:
		}
		ended := 0
		for _, r := range runs {
			ended += int(r.ended.Load())
		}
		drawn = true
		fmt.Fprint(w, "\r"+s.Paint(output.Faint, progressBar(ended, of)))
	}
}

func progressBar(ended, of int) string {
	full := progressWidth * ended / of
	return fmt.Sprintf("[%s%s] %d of %d jobs", strings.Repeat("=", full), strings.Repeat(" ", progressWidth-full), ended, of)
}

func writeRuns(w io.Writer, runs []*simulated, s output.Style) error {
	t := output.Table{Head: []string{
		"POLICY", "NODES", "FINISHED", "COMPLETION", "MEDIAN", "P95", "QUEUEING", "RESCALES", "EFFICIENCY", "DEADLINES", "DECISION", "CPU", "TRACE",
	}}
	for _, r := range runs {
		deadlines := "-"
		if r.DeadlineSatisfied != nil {
			deadlines = percent(*r.DeadlineSatisfied)
		}
		t.Add(r.Policy, strconv.Itoa(r.Nodes), fmt.Sprintf("%d/%d", r.Finished, r.Jobs),
			fmt.Sprintf("%.2f s", r.MeanCompletionS), fmt.Sprintf("%.0f s", r.MedianCompletionS), fmt.Sprintf("%.0f s", r.P95CompletionS),
			fmt.Sprintf("%.0f s", r.MeanQueueingS), fmt.Sprintf("%.2f", r.RescalesPerJob), percent(r.ScalingEfficiency), deadlines,
			fmt.Sprintf("%.2f ms", r.DecisionMSMean), units.Seconds(r.CPUS), r.Trace)
	}
	return t.Write(w, s)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// policiesOf lists the policies of the runs in their order, each once.
func policiesOf(runs []*simulated) []string {
	var out []string
	for _, r := range runs {
		if !slices.Contains(out, r.Policy) {
			out = append(out, r.Policy)
		}
	}
	return out
}
