package verify

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Result is what bellows verify writes; the fields are a contract.
type Result struct {
	Reached   Class `json:"reached"`
	Wanted    Class `json:"wanted"`
	Sizes     []int `json:"sizes"`
	StepsEach int   `json:"steps_each"`
	// Quantities are what was compared step by step, and Tensors what was at the end.
	Quantities []Quantity  `json:"quantities"`
	Tensors    Differences `json:"tensors"`
	// SamplesTwice and SamplesNever count samples of the rescaled training more, and less, than of the other.
	SamplesTwice int `json:"samples_twice"`
	SamplesNever int `json:"samples_never"`
	// Stream says that the data has no indices, so that which samples are taken is not seen.
	Stream bool `json:"stream,omitempty"`
	// Findings are what is wrong, the first to show first; empty where the wanted class was reached.
	Findings []Finding `json:"findings"`
	// Notes are what keeps trainings that are the same on average from being closer, where that is all that was wanted.
	Notes  []Finding `json:"notes,omitempty"`
	Losses []Losses  `json:"losses"`
	// NeverS and RescaledS are what the two trainings took, with the starts of their worlds.
	NeverS    float64 `json:"never_s"`
	RescaledS float64 `json:"rescaled_s"`
	// Worlds are what each world of both took, in turn.
	Worlds []World `json:"worlds"`
}

// Quantity is one thing that was compared in each step.
type Quantity struct {
	Name string `json:"name"`
	Seen bool   `json:"seen"`
	// FirstStep is the first in which the trainings differ, -1 if none is.
	FirstStep int `json:"first_step"`
	// Difference is the largest, relative to the larger value; of samples and the global batch, how many differ.
	Difference float64 `json:"difference"`
}

// Differences are of parameters and optimizer state at the end.
type Differences struct {
	Count  int `json:"count"`
	Differ int `json:"differ"`
	// Difference is the largest, relative to the largest value of its tensor; the largest number there is where a
	// tensor is missing, has another size, or is not finite.
	Difference float64 `json:"difference"`
	Largest    string  `json:"largest"` // the tensor that has it
}

// Losses are those of one step.
type Losses struct {
	Step     int     `json:"step"`
	Workers  int     `json:"workers"` // of the rescaled training
	Never    float64 `json:"never"`
	Rescaled float64 `json:"rescaled"`
}

// names of quantities, in the order in which a cause is looked for.
const (
	ofSamples = "samples"
	ofBatch   = "global batch"
	ofLR      = "learning rate"
	ofLoss    = "loss"
	ofNorm    = "gradient norm"
	ofInputs  = "inputs"

	randomState = "random state" // of findings
)

// Bounds of the classes.
const (
	roundingBound = 1e-6
	// meanBound is by how much mean losses may differ for the statistical class, whatever they scatter, and
	// scatterBound how many standard errors of the mean difference count as none.
	meanBound    = 0.05
	scatterBound = 3
	// normBound is by how much mean gradient norms may differ: a gradient that is scaled by the number
	// of workers differs by 1/2 at least.
	normBound = 0.25
)

// Compare says how equal two trainings of as many steps are.
func Compare(never, rescaled Training, wanted Class) Result {
	c := comparison{pair: pair{never: never, rescaled: rescaled}, wanted: wanted}
	r := Result{Wanted: wanted, Stream: never.Stream || rescaled.Stream, Worlds: slices.Concat(never.Worlds, rescaled.Worlds)}
	c.lossOf = c.convention()
	for _, name := range []string{ofSamples, ofBatch, ofLR, ofLoss, ofNorm, ofInputs} {
		r.Quantities = append(r.Quantities, c.quantity(name))
	}
	r.Tensors = c.tensors()
	r.SamplesTwice, r.SamplesNever = c.counted()
	for i, p := range never.Points {
		if a, b := c.lossOf(p), c.lossOf(rescaled.Points[i]); a != nil && b != nil {
			r.Losses = append(r.Losses, Losses{p.Step, rescaled.Points[i].Workers, *a, *b})
		}
	}
	always := slices.Concat(c.lostHeld(), c.randomness())
	c.broken = c.faults()
	r.Reached = c.class(r, len(always) > 0)
	if r.Reached == Bitwise || r.Reached == Rounding {
		c.broken = nil // nothing came of them
		if f, ok := c.alike(); ok && r.Reached.atLeast(wanted) {
			r.Notes = append(r.Notes, f)
		}
	}
	switch {
	case !r.Reached.atLeast(wanted):
		r.Findings = slices.Concat(c.broken, c.findings(r), always)
		slices.SortStableFunc(r.Findings, func(a, b Finding) int { return a.Step - b.Step })
	case r.Reached == Statistical:
		c.wanted = Rounding
		r.Notes = slices.DeleteFunc(c.findings(r), func(f Finding) bool { return f.Cause == followsLoss })
		for i := range r.Notes {
			r.Notes[i].Remedy = strings.TrimPrefix(r.Notes[i].Remedy, acceptIt)
		}
		slices.SortStableFunc(r.Notes, func(a, b Finding) int { return a.Step - b.Step })
	}
	return r
}

// pair is what was seen of two trainings of as many steps, step by step.
type pair struct {
	never, rescaled Training
	lossOf          func(Point) *float64
}

// comparison judges by it.
type comparison struct {
	pair

	wanted Class
	broken []Finding // faults
}

// convention finds what a step's loss is of what its ranks differentiate: their sum or their
// mean, whichever agrees better. DDP's scripts take the mean, and some sum; that the gradient
// is scaled as it should be is seen by its norm. Without either it is the loss that is reported.
func (c *pair) convention() func(Point) *float64 {
	sum := func(p Point) *float64 { return p.Sum }
	mean := func(p Point) *float64 { return p.Mean }
	apart := func(of func(Point) *float64) (total float64) {
		for i, p := range c.never.Points {
			total += relative(of(p), of(c.rescaled.Points[i]))
		}
		return total
	}
	seen := func(p Point) bool { return p.Mean == nil }
	switch {
	case slices.ContainsFunc(c.never.Points, seen) || slices.ContainsFunc(c.rescaled.Points, seen):
		return func(p Point) *float64 { return p.Reported }
	case apart(sum) < apart(mean):
		return sum
	}
	return mean
}

// relative is how far two numbers are apart, relative to the larger; 0 if either is not known.
func relative(a, b *float64) float64 {
	if a == nil || b == nil || *a == *b {
		return 0
	}
	return math.Abs(*a-*b) / max(math.Abs(*a), math.Abs(*b))
}

// at is by how much a quantity differs in a step, and whether it was seen.
func (c *pair) at(name string, i int) (difference float64, seen bool) {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	switch name {
	case ofSamples:
		twice, missing := counts(a.Samples, b.Samples)
		return float64(max(twice, missing)), a.Samples != nil && b.Samples != nil
	case ofBatch:
		return math.Abs(float64(len(a.Samples) - len(b.Samples))), a.Samples != nil && b.Samples != nil
	case ofInputs:
		more, less := counts(a.data(), b.data())
		return float64(max(more, less)), a.Inputs != nil && b.Inputs != nil
	case ofLR:
		if a.LR == nil || b.LR == nil || len(a.LR) != len(b.LR) {
			return 0, false
		}
		for n := range a.LR {
			difference = max(difference, relative(&a.LR[n], &b.LR[n]))
		}
		return difference, true
	case ofLoss:
		return relative(c.lossOf(a), c.lossOf(b)), c.lossOf(a) != nil && c.lossOf(b) != nil
	default:
		return relative(a.Norm, b.Norm), a.Norm != nil && b.Norm != nil
	}
}

func (c *pair) quantity(name string) Quantity {
	q := Quantity{Name: name, Seen: len(c.never.Points) > 0, FirstStep: -1}
	for i, p := range c.never.Points {
		d, seen := c.at(name, i)
		q.Seen = q.Seen && seen
		if seen && d > 0 && q.FirstStep < 0 {
			q.FirstStep = p.Step
		}
		if seen {
			q.Difference = max(q.Difference, d)
		}
	}
	return q
}

// counted is how many samples were taken more, and less, often over all steps.
func (c *pair) counted() (twice, missing int) {
	var a, b []int
	for i, p := range c.never.Points {
		a, b = append(a, p.Samples...), append(b, c.rescaled.Points[i].Samples...)
	}
	if len(a) == 0 || len(b) == 0 {
		return 0, 0
	}
	return counts(a, b)
}

// counts is how many values the second list has more of, and how many less.
func counts[T comparable](a, b []T) (more, less int) {
	have := map[T]int{}
	for _, v := range a {
		have[v]--
	}
	for _, v := range b {
		have[v]++
	}
	for _, n := range have {
		more, less = more+max(0, n), less+max(0, -n)
	}
	return more, less
}

func (c *pair) tensors() (d Differences) {
	d.Count = len(c.never.Tensors)
	for n, a := range c.never.Tensors {
		if n >= len(c.rescaled.Tensors) || c.rescaled.Tensors[n].Name != a.Name || len(c.rescaled.Tensors[n].Values) != len(a.Values) {
			d.Differ, d.Difference, d.Largest = d.Differ+1, math.Inf(1), a.Name
			continue
		}
		b := c.rescaled.Tensors[n]
		relative, apart := between(a.Values, b.Values)
		if apart == 0 && a.Digest == b.Digest {
			continue
		}
		d.Differ++
		if math.IsNaN(apart) || math.IsInf(apart, 0) {
			d.Difference, d.Largest = math.Inf(1), a.Name
		} else if relative >= d.Difference {
			d.Difference, d.Largest = relative, a.Name
		}
	}
	d.Difference = min(d.Difference, math.MaxFloat64) // JSON knows no infinity
	return d
}

// class is the strictest that the trainings reach.
func (c *comparison) class(r Result, wrong bool) Class {
	for _, q := range r.Quantities[:3] {
		if q.Difference > 0 {
			return Different
		}
	}
	loss, norm := r.Quantities[3], r.Quantities[4]
	switch {
	case wrong || c.otherInputs() >= 0 || c.unalike() != nil || !loss.Seen && r.Tensors.Count == 0 || r.Tensors.Difference == math.MaxFloat64:
		return Different
	case loss.Difference == 0 && norm.Difference == 0 && r.Tensors.Differ == 0:
		return Bitwise
	case max(loss.Difference, norm.Difference, r.Tensors.Difference) <= roundingBound:
		return Rounding
	case len(c.broken) == 0 && len(r.Losses) > 0 && c.fine(ofLoss) && c.fine(ofNorm):
		return Statistical
	}
	return Different
}

// fine tells whether a quantity is the same on average, and each difference has a cause that makes no other training.
func (c *comparison) fine(name string) bool {
	of, bound := c.lossOf, meanBound
	if name == ofNorm {
		of, bound = func(p Point) *float64 { return p.Norm }, normBound
	}
	return c.similar(of, bound) && c.unaccepted(name) < 0
}

// similar tells whether the mean of a quantity is the same within its scatter, and within a bound.
func (c *pair) similar(of func(Point) *float64, bound float64) bool {
	var apart []float64
	sum, scale := 0.0, 0.0
	for i, p := range c.never.Points {
		a, b := of(p), of(c.rescaled.Points[i])
		if a == nil || b == nil {
			continue
		}
		apart, sum, scale = append(apart, *b-*a), sum+*b-*a, scale+math.Abs(*a)
	}
	if len(apart) == 0 {
		return true
	}
	n := float64(len(apart))
	mean, square := sum/n, 0.0
	for _, d := range apart {
		square += (d - mean) * (d - mean)
	}
	scatter := math.Sqrt(square / max(n-1, 1) / n)
	small := roundingBound * scale / n
	return math.Abs(mean) <= bound*scale/n && math.Abs(mean) <= scatterBound*scatter+small
}

// unalike is a tensor that ranks should hold alike and do not; batch norm's own differ by design.
func (c *pair) unalike() *Tensor {
	for _, t := range []*Training{&c.never, &c.rescaled} {
		for n, tensor := range t.Tensors {
			if tensor.Unalike && !isBatchNorm(tensor.Name) {
				return &t.Tensors[n]
			}
		}
	}
	return nil
}

func isBatchNorm(name string) bool { return len(name) > 10 && name[:10] == "batch norm" }

// percent shows a relative difference.
func percent(d float64) string {
	if d < 1e-4 {
		return fmt.Sprintf("%.1e", d)
	}
	return fmt.Sprintf("%.3g %%", 100*d)
}
