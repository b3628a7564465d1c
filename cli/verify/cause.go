package verify

import (
	"fmt"
	"math"
	"slices"
)

// Finding is one thing that is wrong: what differs first, why that probably is, and what to do.
type Finding struct {
	Quantity   string  `json:"quantity"`
	Step       int     `json:"step"`
	Workers    int     `json:"workers"` // of the rescaled training in that step
	Difference float64 `json:"difference"`
	What       string  `json:"what"`
	Cause      string  `json:"cause"`
	Remedy     string  `json:"remedy"`
}

// findings are the first steps in which quantities differ by more than the wanted class allows.
func (c *comparison) findings(r Result) (all []Finding) {
	if i := c.otherInputs(); i >= 0 {
		all = append(all, c.inputsFinding(i))
	}
	for _, q := range r.Quantities {
		if i := c.first(q.Name); i >= 0 && q.Name != ofInputs {
			all = append(all, c.finding(q.Name, i))
		}
	}
	if t := c.unalike(); t != nil {
		all = append(all, Finding{
			Quantity: "ranks", Step: c.lastStep(), What: t.Name + " is not the same on all ranks",
			Cause:  "ranks train apart: their gradients are not summed, or they began with other weights",
			Remedy: "wrap the model in DistributedDataParallel after its state is loaded, or sum the gradients; make it from one seed on all ranks",
		})
	}
	bounded := c.wanted != Statistical || r.Tensors.Difference == math.MaxFloat64 // a class that goes by means has no bound for the state
	if len(all) == 0 && r.Tensors.Differ > 0 && bounded {
		f := Finding{
			Quantity: "parameters", Step: c.lastStep(), Difference: r.Tensors.Difference,
			What: fmt.Sprintf("%d of %d tensors differ at the end, %s most", r.Tensors.Differ, r.Tensors.Count, r.Tensors.Largest), Cause: c.noise(), Remedy: noiseRemedy,
		}
		if c.dropout() && r.Tensors.Difference > c.noiseBound() {
			f.Cause, f.Remedy = maskCause, maskRemedy
		}
		if isBatchNorm(r.Tensors.Largest) {
			f.Cause, f.Remedy = "batch norm's running statistics are of the micro-batches of one rank, and are updated once for each of them", runningRemedy
		}
		all = append(all, f)
	}
	if len(all) == 0 && r.Tensors.Count == 0 {
		all = append(all, Finding{
			Quantity: ofLoss, What: "no loss and no optimizer was seen", Cause: "the script trains without torch's optimizers and reports nothing",
			Remedy: reportRemedy,
		})
	}
	if len(all) == 0 && len(r.Losses) == 0 && r.Tensors.Differ > 0 {
		all = append(all, Finding{
			Quantity: ofLoss, What: "no loss was seen, and the state at the end differs", Cause: "the script computes its gradients in a way that is not observed, and reports nothing",
			Remedy: reportRemedy,
		})
	}
	return all
}

const reportRemedy = "call bellows.report(step, loss=loss) after each step"

func (c *pair) lastStep() int { return c.never.Points[len(c.never.Points)-1].Step }

// first is the index of the first step in which a quantity differs by more than the wanted class
// allows; -1: none. For a class that goes by means it is the first step whose difference has a cause that is not
// accepted; if there is none and the means differ, the first that differs by more than rounding.
func (c *comparison) first(name string) int {
	bound := 0.0
	if name == ofLoss || name == ofNorm {
		switch {
		case c.wanted == Rounding:
			bound = roundingBound
		case c.wanted == Statistical && c.fine(name):
			return -1
		case c.wanted == Statistical:
			if i := c.unaccepted(name); i >= 0 {
				return i
			}
			bound = roundingBound
		}
	}
	return c.beyond(name, bound, 0)
}

// beyond is the first step from one on in which a quantity differs by more than a bound; -1: none.
func (c *pair) beyond(name string, bound float64, begin int) int {
	for i := begin; i < len(c.never.Points); i++ {
		if d, seen := c.at(name, i); seen && d > bound {
			return i
		}
	}
	return -1
}

func (c *comparison) finding(name string, i int) Finding {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	d, _ := c.at(name, i)
	f := Finding{Quantity: name, Step: b.Step, Workers: b.Workers, Difference: d}
	switch name {
	case ofSamples:
		more, less := counts(a.Samples, b.Samples)
		f.What = fmt.Sprintf("%d samples that the step should not take, %d left out", more, less)
		f.Cause, f.Remedy = c.whySamples(i)
	case ofBatch:
		f.What = fmt.Sprintf("%d samples instead of %d", len(b.Samples), len(a.Samples))
		f.Cause, f.Remedy = c.whyBatch(i)
	case ofLR:
		f.What = fmt.Sprintf("%v instead of %v", b.LR, a.LR)
		f.Cause, f.Remedy = c.whyLR(i)
	case ofLoss:
		f.What = fmt.Sprintf("%.9g instead of %.9g (%s)", *c.lossOf(b), *c.lossOf(a), percent(d))
		f.Cause, f.Remedy = c.whyUnaccepted(name, i).say()
	case ofNorm:
		f.What = fmt.Sprintf("%.9g instead of %.9g (%s)", *b.Norm, *a.Norm, percent(d))
		f.Cause, f.Remedy = c.whyUnaccepted(name, i).say()
	}
	return f
}

// resumes tells whether a world of the rescaled training begins with a step.
func (c *pair) resumes(i int) bool {
	return i > 0 && (c.rescaled.Points[i].Workers != c.rescaled.Points[i-1].Workers || c.resume(i) != nil)
}

// resume is what was seen of the resume at a step; nil: nothing, or there is none.
func (c *pair) resume(i int) *Resume {
	for n, r := range c.rescaled.Resumes {
		if r.Step == c.rescaled.Points[i].Step {
			return &c.rescaled.Resumes[n]
		}
	}
	return nil
}

// equal tells whether a step is one of the first worlds of both trainings, which are equal.
func (c *pair) equal(i int) bool {
	return c.begin(i) == 0 && c.rescaled.Points[0].Workers == c.never.Points[0].Workers
}

const (
	eachDevice       = "each device takes as many samples whatever the number of workers, so that the global batch changes with it"
	eachDeviceRemedy = "give each device bellows.batch_size() // bellows.world_size() samples a step, in bellows.accumulation_steps() parts"
)

const samplesRemedy = "take the samples of a step from bellows.indices(step, n), bellows.Batches or bellows.MicroBatches; for trainers see docs/recipes.md"

func (c *comparison) whySamples(i int) (cause, remedy string) {
	b := c.rescaled.Points[i]
	if cause, remedy = c.whyBatch(i); cause != "" {
		return cause, remedy
	}
	if !c.resumes(i) && c.never.Points[i].PassEnded != b.PassEnded {
		return "a pass over the data ends after another number of steps: its last batch is smaller, left out (drop_last) or padded", samplesRemedy
	}
	for j, a := range c.never.Points {
		if !slices.Equal(a.Samples, b.Samples) {
			continue
		}
		if j == 0 {
			return "the sampler begins anew after a resume: the script does not go on where the checkpoint was", samplesRemedy
		}
		if c.passesDiffer(i) {
			return fmt.Sprintf("the sampler is %d steps off, and a pass over the data has another number of steps: its last batch is smaller, left out (drop_last) or padded", j-i), samplesRemedy
		}
		return fmt.Sprintf("the sampler is %d steps off: what was consumed is counted per process, or batches are skipped or read ahead across the resume", j-i), samplesRemedy
	}
	if slices.ContainsFunc(b.Backwards, func(n int) bool { return n != b.Backwards[0] }) {
		return "ranks take unlike numbers of batches", samplesRemedy
	}
	return "the sampler shuffles or shares out otherwise with another number of workers, or seeds itself anew", samplesRemedy
}

// passesDiffer tells whether a pass over the data has another number of steps in the rescaled training than in the other. A
// sampler that has only what is left after a resume does not count.
func (c *pair) passesDiffer(i int) bool {
	a, b := c.never.Points[i].passSteps(), c.rescaled.Points[i].passSteps()
	return a > 0 && b > 0 && a != b && a-b != float64(c.rescaled.Points[c.begin(i)].Step)
}

// passSteps is how many steps a pass over the data has; 0: it is not known.
func (p Point) passSteps() float64 {
	if len(p.Backwards) == 0 || p.Backwards[0] == 0 {
		return 0
	}
	return float64(p.PassBatches) / float64(p.Backwards[0])
}

// whyBatch explains a global batch of another size; it has nothing to say if the size is the same.
func (c *comparison) whyBatch(i int) (cause, remedy string) {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	switch {
	case len(a.Samples) == len(b.Samples):
		return "", ""
	case len(a.Samples)*b.Workers == len(b.Samples)*a.Workers:
		return eachDevice, eachDeviceRemedy
	}
	return "the last batch of a pass is smaller or left out, or accumulation steps differ", samplesRemedy
}

func (c *comparison) whyLR(i int) (cause, remedy string) {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	for _, p := range []Point{a, b} {
		if p.Scheduled > 1 && p.Scheduled == p.Workers {
			return fmt.Sprintf("the scheduler is stepped once for each process: %d times in a step of %d workers", p.Scheduled, p.Workers),
				"step it once a step; with accelerate: Accelerator(step_scheduler_with_optimizer=False) (docs/recipes.md#accelerate)"
		}
	}
	if len(a.LR) > 0 && len(b.LR) > 0 && scaledBy(b.LR[0]/a.LR[0], float64(b.Workers)/float64(a.Workers)) {
		return fmt.Sprintf("the learning rate is scaled by the number of workers, %d instead of %d", b.Workers, a.Workers),
			"leave it as it is: the batch is the same for any number of workers; for a batch that ranges use --lr-rule and bellows.lr_scale(step)"
	}
	known := a.Place != nil && b.Place != nil
	if known && *a.Place != *b.Place && *b.Place < *a.Place && *b.Place <= i-c.begin(i) {
		return fmt.Sprintf("the scheduler begins anew after a resume: it is at its step %d instead of %d", *b.Place, *a.Place), schedulerRemedy
	}
	if known && *a.Place == *b.Place && c.resumes(i) {
		return "the optimizer's own rate is not restored, though the scheduler is where it was", "save and load optimizer.state_dict(), before the scheduler's"
	}
	if !known && c.resumes(i) && slices.Equal(b.LR, c.never.Points[0].LR) {
		return "the scheduler begins anew after a resume", schedulerRemedy
	}
	if c.resumes(i) || known && *a.Place != *b.Place {
		return "the scheduler's place is not restored: its step is not the training's", schedulerRemedy
	}
	return "the schedule depends on the number of workers, such as by the length of a loader", "count steps of the training, and make the schedule from a fixed number of them"
}

const schedulerRemedy = "save scheduler.state_dict() with the checkpoint and load it, after the optimizer's"

// scaledBy tells whether a ratio is that of the numbers of workers, or its root, as of rates that are scaled by them.
func scaledBy(ratio, workers float64) bool {
	for _, each := range []float64{workers, math.Sqrt(workers)} {
		if each != 1 && math.Abs(ratio/each-1) < 0.01 {
			return true
		}
	}
	return false
}

// begin is the index of the first step of the world that trains a step.
func (c *pair) begin(i int) int {
	for i > 0 && !c.resumes(i) {
		i--
	}
	return i
}

func (c *pair) dropout() bool {
	return slices.ContainsFunc(c.rescaled.Points, func(p Point) bool { return p.Masks[0] != "" })
}

// randomness finds dropout masks that repeat: over ranks, or over steps.
func (c *comparison) randomness() (all []Finding) {
	seen := map[string]Point{}
	for _, p := range c.rescaled.Points {
		if f, ok := repeated(seen, p); ok {
			return []Finding{f}
		}
		for rank := range p.Masks {
			seen[p.Masks[rank]] = p
		}
	}
	return nil
}

// repeated finds whether ranks of a step draw what others, or a step before, have drawn.
func repeated(seen map[string]Point, p Point) (f Finding, repeats bool) {
	f = Finding{
		Quantity: randomState, Step: p.Step, Workers: p.Workers,
		Remedy: "call bellows.seed(step) before each step, or bellows.seed(step, part) before each micro-batch, instead of one seed at the top",
	}
	for rank, mask := range p.Masks {
		if mask == "" {
			continue
		}
		if other := slices.Index(p.Masks, mask); other < rank {
			f.What = fmt.Sprintf("ranks %d and %d drop the same units", other, rank)
			f.Cause = "the ranks draw the same random numbers: all ranks are seeded alike"
			return f, true
		}
		if before, ok := seen[mask]; ok {
			f.What = fmt.Sprintf("rank %d drops the same units as in step %d", rank, before.Step)
			f.Cause = "the random state begins anew after a resume"
			return f, true
		}
	}
	return f, false
}
