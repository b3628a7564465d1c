package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// dueJobs come at random, most of them with a deadline, tight or loose.
func dueJobs(r *rand.Rand) []Job {
	var jobs []Job
	at := time.Duration(0)
	for i := range 12 + r.IntN(14) {
		work := time.Duration(120+r.IntN(9000)) * s
		j := elastic(fmt.Sprint("d", i), at, work, 1<<r.IntN(4))
		j.MinWorkers = min(j.MaxWorkers, 1<<(r.IntN(2)*r.IntN(3)))
		if r.IntN(4) > 0 {
			j.Deadline = at + time.Duration(float64(work)*(0.2+3*r.Float64()))
			if r.IntN(4) == 0 {
				j.Grace = time.Duration(float64(work) * r.Float64())
			}
		}
		jobs = append(jobs, j)
		at += time.Duration(r.IntN(700)) * s
	}
	return jobs
}

// Whatever comes after it, a job that was promised its deadline ends by it: through the
// coordinator's own decisions and records, with every start paid for. The rest is refused
// before it has run.
func TestPromisedDeadlinesAreKept(t *testing.T) {
	t.Parallel()
	for _, name := range policy.Names() {
		if _, ok := byName(t, name).(allocator.Promising); !ok {
			continue
		}
		const few, many = 4, 30
		seeds := uint64(few)
		if !testing.Short() && slices.Contains([]string{policy.Default, "elasticflow", "edf"}, name) {
			seeds = many
		}
		promised, late, refused := 0, 0, 0
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 14))
			cfg := Config{
				Jobs: dueJobs(r), Nodes: 1 + r.IntN(3), DevicesPerNode: 1 << (1 + r.IntN(3)), Policy: byName(t, name), Promise: true,
				Interval: time.Duration(30+r.IntN(300)) * s, RescaleCost: time.Duration(r.IntN(30)) * s,
			}
			for i := range cfg.Jobs {
				cfg.Jobs[i].MinWorkers = min(cfg.Jobs[i].MinWorkers, cfg.Nodes*cfg.DevicesPerNode)
			}
			got, log := run(t, cfg)
			if said := strings.Join(log, "\n"); strings.Contains(said, "cannot be kept:") {
				t.Errorf("%s, seed %d: given up a promise", name, seed)
			}
			for i, o := range got.Jobs {
				switch {
				case o.Deadline == 0:
				case o.Phase == cluster.Refused:
					if refused++; o.Held > 0 {
						t.Errorf("%s, seed %d: refused, and has run: %+v", name, seed, o)
					}
				default:
					promised++
					if o.End > o.Deadline {
						late++
					}
					if latest := o.Deadline + cfg.Jobs[i].Grace; o.Phase != cluster.Succeeded || o.End > latest {
						t.Errorf("%s, seed %d: promised %v, ended %v late: %+v, %+v", name, seed, latest, o.End-latest, o, cfg.Jobs[i])
					}
				}
			}
			if t.Failed() {
				t.Log(strings.Join(log, "\n"))
				return
			}
		}
		if promised < 5*int(seeds) || refused < int(seeds) {
			t.Errorf("%s: %d were promised, %d refused: this shows little", name, promised, refused)
		}
		if seeds > few && late == 0 {
			t.Errorf("%s: no job ended in its grace", name)
		}
		t.Logf("%s: %d promised, %d of them ended in their grace, %d refused", name, promised, late, refused)
	}
}
