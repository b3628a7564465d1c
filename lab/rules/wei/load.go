package wei

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// A Load is named TASKS-BATCH-SPEEDS: tasks of one batch, or of one batch for each process,
// with the speeds that the paper's times imply or those that grow by a power.
type load struct {
	tasks, most int // how many, and processes that one may have
	apart       time.Duration
	stages      stages
}

// alone is how long a task takes with four processes: its loss then is the criterion by which it has converged.
const alone = 300 * time.Second

func loads() map[string]load {
	out := map[string]load{}
	for name, l := range map[string]load{
		"pair":  {tasks: 2, most: 4, apart: 200 * time.Second}, // the paper's
		"eight": {tasks: 8, most: 16, apart: 50 * time.Second}, // ours, on 32 devices
	} {
		for kind, s := range map[string]stages{
			"512-implied": {impliedTask, impliedTask}, "128-implied": {impliedYoung128, impliedOld128},
			"512-power": {power, power}, "128-power": {young128, power},
		} {
			l.stages = s
			out[name+"-"+kind] = l
		}
	}
	return out
}

// Loads names what Read knows.
func Loads() []string {
	var names []string
	for name := range loads() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Read makes the jobs of a load and their terms: starts cost nothing, and what is known of speeds is those of old tasks.
func Read(name string) ([]sim.Job, sim.Terms, error) {
	l, ok := loads()[name]
	if !ok {
		return nil, sim.Terms{}, fmt.Errorf("trace %.60q: the rules wei have loads of their own: use one of %s", name, strings.Join(Loads(), ", "))
	}
	// The work is counted as time on one device, as an old task has it.
	one := l.stages.old(1)
	work := sim.Seconds(alone.Seconds() / one)
	var jobs []sim.Job
	for i := range l.tasks {
		j := sim.Job{
			Arrival: trace.Arrival{ID: fmt.Sprintf("task%d", i), Submit: time.Duration(i) * l.apart, Workers: 1, Model: "vgg16", Duration: work},
			Work:    work, ETA: work, Command: []string{"train", name},
			MinWorkers: 1, MaxWorkers: l.most,
		}
		for k := 1; k <= l.most; k++ {
			j.Sizes = append(j.Sizes, k)
		}
		jobs = append(jobs, j)
	}
	return jobs, sim.Terms{
		Pace: func(_ sim.Job, at sim.Standing) (float64, error) { return l.stages.old(at.Workers()) / one, nil },
		Worth: func(_ sim.Job, at sim.Standing) (gain, noise float64) {
			if k := at.Workers(); at.Done < aged-1e-9 {
				return l.stages.young(k) / l.stages.old(k), 0
			}
			return 1, 0
		},
		Stages: func(sim.Job) []float64 { return []float64{aged} },
		Losses: func(_ sim.Job, done float64) goodput.Told { return told(done) },
	}, nil
}
