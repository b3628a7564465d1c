package pollux

import (
	"fmt"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/lab/trace"
)

// model is a model of Pollux's measurements with what has been read off
// them already.
type model struct {
	*trace.PolluxModel
	space []trace.PolluxPoint // mean of the placements, and the wide points
	memo  map[key]stepTime
	inAll map[int]float64 // steps of a job by its batch
	ends  []float64       // see epochEnds
}

type key struct{ placement, nodes, workers, local int }

type stepTime struct{ step, sync float64 }

func newModel(m *trace.PolluxModel) *model {
	x := &model{PolluxModel: m, memo: map[key]stepTime{}, inAll: map[int]float64{}}
	type point struct{ nodes, workers, local int }
	sum, count := map[point]stepTime{}, map[point]float64{}
	var order []point
	placements := make([]int, 0, len(m.Placements))
	for p := range m.Placements {
		placements = append(placements, p)
	}
	slices.Sort(placements)
	for _, placement := range placements {
		for _, p := range m.Placements[placement] {
			k := point{p.Nodes, p.Workers, p.Local}
			if count[k] == 0 {
				order = append(order, k)
			}
			count[k]++
			sum[k] = stepTime{sum[k].step + p.Step, sum[k].sync + p.Sync}
		}
	}
	for _, k := range order {
		x.space = append(x.space, trace.PolluxPoint{
			Nodes: k.nodes, Workers: k.workers, Local: k.local, Step: sum[k].step / count[k], Sync: sum[k].sync / count[k],
		})
	}
	x.space = append(x.space, m.Wide...)
	return x
}

// measuredNodes is how many nodes were measured; more count as that many.
const measuredNodes = 16

// time is the time of one step on a placement: interpolated between the local
// batches that were measured on it, or else between its neighbours in the space
// of nodes, workers and local batch.
func (m *model) time(placement []int, local int) (stepTime, error) {
	k := key{nodes: min(len(placement), measuredNodes), local: local}
	for _, n := range placement {
		k.workers += n
	}
	if len(placement) <= 4 { // no larger placement was measured
		k.placement = leastRotation(placement)
	}
	if t, ok := m.memo[k]; ok {
		return t, nil
	}
	var t stepTime
	var ok bool
	if curve := m.Placements[k.placement]; len(curve) > 0 {
		t, ok = between(curve, local)
	} else {
		t, ok = within(m.space, [3]float64{float64(k.nodes), float64(k.workers), float64(local)})
	}
	if !ok {
		return t, fmt.Errorf("no step time of placement %v with a local batch of %d: outside of what was measured", placement, local)
	}
	m.memo[k] = t
	return t, nil
}

// leastRotation writes a placement as the table does: rotated so that it is least.
func leastRotation(placement []int) int {
	least := math.MaxInt
	for i := range placement {
		id := 0
		for k := range placement {
			id = 10*id + placement[(i+k)%len(placement)]
		}
		least = min(least, id)
	}
	return least
}

// between interpolates a curve at a local batch.
func between(curve []trace.PolluxPoint, local int) (stepTime, bool) {
	i, found := slices.BinarySearchFunc(curve, local, func(p trace.PolluxPoint, b int) int { return p.Local - b })
	switch {
	case found:
		return stepTime{curve[i].Step, curve[i].Sync}, true
	case i == 0 || i == len(curve):
		return stepTime{}, false
	}
	a, b := curve[i-1], curve[i]
	part := float64(local-a.Local) / float64(b.Local-a.Local)
	return stepTime{a.Step + part*(b.Step-a.Step), a.Sync + part*(b.Sync-a.Sync)}, true
}

// progress is how far training has come after so many epochs.
func (m *model) progress(epochs int) float64 {
	if epochs == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, r := range m.Runs {
		least = math.Min(least, r.Epochs[epochs-1].Progress)
	}
	return least
}

// at interpolates a measure between the trainings at the batches around this one.
func (m *model) at(batch, epoch int, measure func(trace.PolluxEpoch) float64) float64 {
	i, found := slices.BinarySearchFunc(m.Runs, batch, func(r trace.PolluxRun, b int) int { return r.Batch - b })
	i = min(i, len(m.Runs)-1)
	high := measure(m.Runs[i].Epochs[epoch])
	if found || i == 0 {
		return high
	}
	low := measure(m.Runs[i-1].Epochs[epoch])
	a, b := float64(m.Runs[i-1].Batch), float64(m.Runs[i].Batch)
	return ((float64(batch)-a)*high + (b-float64(batch))*low) / (b - a)
}

// gain is what one step at a batch is worth in steps at the initial batch.
func (m *model) gain(batch, epoch int) float64 {
	sqr := m.at(batch, epoch, func(e trace.PolluxEpoch) float64 { return e.GradSqr })
	noise := m.at(batch, epoch, func(e trace.PolluxEpoch) float64 { return e.GradVar })
	scale := float64(batch) / float64(m.InitBatch)
	return (noise + sqr) / (noise/scale + sqr)
}

// shareOf is how a batch is split over workers: so many samples at a time, and
// how many further times before a step, which is at least least.
func (m *model) shareOf(batch, workers, least int) (atomic, accumulated int) {
	local := ceilDiv(batch, workers)
	accumulated = max(least, ceilDiv(local, m.MaxLocal)-1)
	atomic = ceilDiv(local, accumulated+1)
	return min(atomic, m.MaxBatch/(workers*(accumulated+1))), accumulated
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// assumed is how long Optimus assumes that a step takes: workers packed on nodes of four.
func (m *model) assumed(batch, workers int) (float64, error) {
	var placement []int
	for rest := workers; rest > 0; rest -= 4 {
		placement = append(placement, min(rest, 4))
	}
	least := 0
	if workers == 1 {
		least = 1
	}
	atomic, accumulated := m.shareOf(batch, workers, least)
	t, err := m.time(placement, atomic)
	return t.step + (t.step-t.sync)*float64(accumulated), err
}
