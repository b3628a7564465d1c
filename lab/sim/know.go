package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Know is what is told of a job before it has run, in the records in which a
// cluster has it: what owners say in its spec, what was measured in its speed
// record. What is not told, production code measures while it runs.
type Know string

// The values of Know.
const (
	KnowAll     Know = "all"     // its work, its speed and cost of a start at each size; nothing is measured besides
	KnowWork    Know = "work"    // its steps and how long they take on one device
	KnowCurves  Know = "curves"  // its speeds, the costs of starts, and its steps
	KnowSteps   Know = "steps"   // its steps, as users tell with --steps alone
	KnowNothing Know = "nothing" // nothing; it reports its steps, but not of how many
)

// Knows lists the values of Know.
func Knows() []string {
	return []string{string(KnowAll), string(KnowWork), string(KnowCurves), string(KnowSteps), string(KnowNothing)}
}

// check returns what is wrong with it; empty stands for KnowAll.
func (k Know) check() error {
	switch k {
	case "", KnowAll, KnowWork, KnowCurves, KnowSteps, KnowNothing:
		return nil
	}
	return fmt.Errorf("know %q: use one of %s", string(k), strings.Join(Knows(), ", "))
}

func (k Know) all() bool    { return k == "" || k == KnowAll }
func (k Know) steps() bool  { return k != KnowNothing }
func (k Know) eta() bool    { return k.all() || k == KnowWork }
func (k Know) curves() bool { return k.all() || k == KnowCurves }

// surely is of how many measurements what is told is: so many that none adds to it.
const surely = 64

// tell writes down what is known of the speeds of a job that was admitted. Where
// all is as it is taken to be of a job of which nothing is known, there is nothing to tell.
func (w *world) tell(j *job) {
	if !w.cfg.Know.curves() || w.rules != nil {
		return
	}
	if j.known = w.curves(j); len(j.known.Points)+len(j.known.Starts) > 0 {
		w.write(record.Put(record.SpeedKey(j.id), j.known))
	}
}

// tellKind writes down what is known of a job's speeds as what its kind has shown, which is all
// that a deadline can be answered with: a job has no record of its own before it is admitted.
func (w *world) tellKind(j *job, spec *cluster.Spec) {
	if !w.cfg.Promise || !w.cfg.Know.curves() {
		return
	}
	if s := w.curves(j); len(s.Points)+len(s.Starts) > 0 {
		w.write(record.Put(record.JobKindKey(owner.UID, spec.KindName()), record.JobKind{
			At: s.At, Jobs: 1, Points: s.Points, Starts: s.Starts, NoiseScale: s.NoiseScale,
		}))
	}
}

// curves are a job's speed and the cost of a start at each of its sizes.
func (w *world) curves(j *job) record.Speed {
	spec := spec(j.Job, j.index)
	s := record.Speed{At: zero.Add(w.now), Step: -1, Samples: -1}
	_, s.NoiseScale = w.worth(j, j.standing(w.packed(1), spec.BatchSize.Min))
	for _, k := range spec.WorldSizes() {
		if j.Speed != nil || j.On != nil || w.cfg.Terms.Pace != nil {
			s.Points = append(s.Points, w.points(j, &spec, k)...)
		}
		if cost := w.startCostAt(j, k) + w.cfg.StartDelay; cost != allocator.DefaultStartCost {
			for range 2 { // of one alone it is not believed how far it is from the usual
				s.Starts = append(s.Starts, record.StartPoint{Workers: k, Seconds: cost.Seconds()})
			}
		}
	}
	s.Points = s.Points[:min(len(s.Points), record.MaxSpeedPoints)]
	s.Starts = s.Starts[:min(len(s.Starts), record.MaxStartPoints)]
	return s
}

// points are the speeds with k workers at the batch of a job, or at some over all of its range.
func (w *world) points(j *job, spec *cluster.Spec, k int) (out []record.SpeedPoint) {
	point := func(batch int) {
		for _, t := range w.paces(j, j.standing(w.packed(k), batch)) {
			rate := stepsPerSecond * t.pace
			out = append(out, record.SpeedPoint{
				Workers: k, Nodes: goodput.NodesFor(k, w.cfg.DevicesPerNode), Model: t.model, Batch: batch,
				StepsPerSecond: rate, Low: rate, High: rate, Windows: surely,
			})
		}
	}
	if j.Batch.Max <= j.Batch.Min {
		point(spec.BatchSize.Min)
		return out
	}
	least, most := spec.BatchSize.On(k), spec.BatchSize.Max/k*k
	n := max(2, record.MaxSpeedPoints/len(spec.WorldSizes()))
	for i := range n {
		b := int(float64(least)*math.Pow(float64(most)/float64(least), float64(i)/float64(n-1))) / k * k
		if b = max(b, least); len(out) == 0 || b > out[len(out)-1].Batch {
			point(b)
		}
	}
	return out
}

// paceOn is how fast a job is on devices of one model.
type paceOn struct {
	model string
	pace  float64
}

// paces are those on each model that nodes tell. Where they do not tell them apart, it is the mean
// over all devices, as it would be measured.
func (w *world) paces(j *job, at Standing) (out []paceOn) {
	if w.cfg.Models == nil {
		return []paceOn{{deviceModel, w.pace(j, at)}}
	}
	sum := 0.0
	for _, m := range w.cfg.Models {
		at.Models = []string{m}
		p := paceOn{m, w.pace(j, at)}
		sum += p.pace
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if w.cfg.Blind {
		return []paceOn{{deviceModel, sum / float64(len(w.cfg.Models))}}
	}
	return out
}

// tellNoise writes down the gradient noise scale of a job in its newest world, where it has changed.
func (w *world) tellNoise(j *job) {
	if w.cfg.Terms.Worth == nil || !w.cfg.Know.curves() {
		return
	}
	s := j.known
	if _, noise := w.worth(j, j.standing(placement(j.gen.world), j.gen.world.BatchSize)); math.Abs(math.Log(noise/s.NoiseScale)) > newNoise {
		s.NoiseScale, j.known.NoiseScale = noise, noise
		w.soon = append(w.soon, func() { w.write(record.Put(record.SpeedKey(j.id), s)) })
	}
}

// tellLosses writes the windows of losses down that the job's ranks have told by now, where there is a new one.
func (w *world) tellLosses(j *job) {
	if w.cfg.Terms.Losses == nil {
		return
	}
	t := w.cfg.Terms.Losses(j.Job, min(1, j.done/j.Work.Seconds()))
	if newestStep(j.losses) > t.Step { // steps were lost
		j.losses = j.losses.Next(t.Step)
	}
	last := newestStep(j.losses)
	if j.losses.Fold(t); newestStep(j.losses) == last {
		return
	}
	j.known.Losses = nil
	for _, l := range j.losses.Windows {
		j.known.Losses = append(j.known.Losses, record.LossWindow{Step: l.Step, Mean: l.Mean, Told: l.Told})
	}
	w.write(record.Put(record.SpeedKey(j.id), j.known))
}

// newestStep is where the newest window ends.
func newestStep(m goodput.LossMeter) int64 {
	if n := len(m.Windows); n > 0 {
		return m.Windows[n-1].Step
	}
	return -1
}

// newNoise is by how much the noise must have changed, as a log, to be told again.
const newNoise = 0.03

// deviceModel is of simulated devices where all are alike.
const deviceModel = "SIM"

// said is what the job's owner says of it.
func (k Know) said(j *job, s *cluster.Spec) {
	if k.steps() {
		s.Steps = j.steps()
	}
	if k.eta() {
		s.ETA = cluster.Duration(j.ETA)
	}
}
