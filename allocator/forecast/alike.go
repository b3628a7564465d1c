package forecast

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// alike is what would be left of the job if it took as much as each of the jobs like
// it: those of its kind, by steps where it tells its own; else those of all kinds, by
// the work that it has done. Jobs that took less than that tell nothing of the rest.
func (f *Forecast) alike(j Job) (left []time.Duration) {
	took, steps := j.KindTook, j.Reported && f.one > 0
	if len(took) == 0 || f.unfit {
		took, steps = j.FleetTook, false
	}
	done := f.attained(j)
	if j.Reported && f.one > 0 {
		done = float64(max(0, j.Done)) / f.one
	}
	for _, t := range took {
		rest := t.Work.Seconds() - done
		if steps && t.Steps > 0 {
			rest = float64(t.Steps-max(0, j.Done)) / f.one
		}
		if rest > 0 {
			left = append(left, duration(rest))
		}
	}
	slices.Sort(left)
	return left
}

// Length is how much a job that is through has taken: by its steps and its speed, or
// else by its time with workers. False if it has had none.
func (l Learned) Length(j Job) (record.Length, bool) {
	f := Forecast{Learned: l}
	if steps := j.Done; j.Reported && !j.Void && steps > 0 && f.one > 0 {
		return record.Length{Steps: steps, WorkS: float64(steps) / f.one}, true
	}
	work := f.attained(j)
	return record.Length{WorkS: work}, work > 0
}

// TookOf are the recorded lengths of a kind's jobs.
func TookOf(lengths []record.Length) (out []Took) {
	for _, l := range lengths {
		out = append(out, Took{Steps: l.Steps, Work: seconds(l.WorkS)})
	}
	return out
}

// fleetTook bounds what is told of the jobs of all kinds: as many of them as stand for all.
const fleetTook = 20

// FleetTookOf are what jobs of all kinds took, fleetTook of them spread evenly over all by their work.
func FleetTookOf(kinds map[uint32]map[string]record.Versioned[record.JobKind]) (out []Took) {
	var all []time.Duration
	for _, of := range kinds {
		for _, k := range of {
			for _, l := range k.Value.Lengths {
				all = append(all, seconds(l.WorkS))
			}
		}
	}
	slices.Sort(all)
	n := min(len(all), fleetTook)
	for i := range n {
		out = append(out, Took{Work: all[(2*i+1)*len(all)/(2*n)]})
	}
	return out
}
