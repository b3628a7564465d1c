package pollux

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/lab/trace"
)

// tiresias runs two queues in their order, the second after the first. Jobs
// begin in the first, and move to the second for good by their device time.
func (p *Rules) tiresias(active []*job) error {
	for i, q := range p.queues {
		p.queues[i] = slices.DeleteFunc(q, func(j *job) bool { return j.ended })
	}
	for _, j := range active {
		if !j.queued {
			j.queued = true
			p.queues[0] = append(p.queues[0], j)
		}
	}
	for _, j := range active {
		if j.running {
			j.service += p.now - j.counted
			if at := slices.Index(p.queues[0], j); at >= 0 && j.service*j.workers >= demotion {
				p.queues[0] = slices.Delete(p.queues[0], at, at+1)
				p.queues[1] = append(p.queues[1], j)
			}
		}
		j.counted = p.now
	}
	left := p.on.Devices()
	order := slices.Concat(p.queues[0], p.queues[1])
	for _, j := range order {
		if j.running = j.workers <= left; j.running {
			left -= j.workers
		} else {
			p.release(j)
		}
	}
	for _, j := range order {
		if j.running && len(j.nodes) == 0 {
			p.take(j, j.workers)
		}
	}
	return nil
}

// optimus gives each job one worker while there are any, and then each further
// worker to the job whose remaining time it shortens most.
func (p *Rules) optimus(active []*job) error {
	left := p.on.Devices()
	workers, gain := make([]int, len(active)), make([]float64, len(active))
	raise := func(i int) (err error) {
		workers[i]++
		left--
		gain[i] = 0
		if workers[i] < active[i].most && left > 0 {
			gain[i], err = active[i].gainOf(workers[i] + 1)
		}
		return err
	}
	for i := range min(left, len(active)) {
		if err := raise(i); err != nil {
			return err
		}
	}
	for left > 0 {
		best := 0
		for i := range gain {
			if gain[i] > gain[best] {
				best = i
			}
		}
		if !(gain[best] > 0) {
			break
		}
		if err := raise(best); err != nil {
			return err
		}
	}
	order := make([]int, len(active))
	for i, j := range active {
		order[i] = i
		if len(j.nodes) != workers[i] {
			p.release(j)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(workers[a], workers[b]) })
	for _, i := range order {
		if len(active[i].nodes) == 0 {
			p.take(active[i], workers[i])
		}
	}
	return nil
}

// gainOf is by how many seconds the kth worker shortens the remaining time, as
// its simulator counts it: in the last epoch one step remains.
func (j *job) gainOf(k int) (float64, error) {
	with, err := j.model.assumed(j.batch, k)
	if err != nil {
		return 0, err
	}
	without, err := j.model.assumed(j.batch, k-1)
	remaining := 1.0
	if last := j.model.Epochs - 1; j.epoch < last {
		steps := func(e trace.PolluxEpoch) float64 { return e.Iteration }
		remaining = j.model.at(j.batch, last, steps) - j.model.at(j.batch, j.epoch, steps)
	}
	return float64((without - with) * remaining), err
}
