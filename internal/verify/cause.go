package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/internal/units"
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
	for _, q := range r.Quantities {
		if i := c.first(q.Name); i >= 0 {
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
			Remedy: "call bellows.report(step, loss=loss) after each step",
		})
	}
	return all
}

func (c *comparison) lastStep() int { return c.never.Points[len(c.never.Points)-1].Step }

// first is the index of the first step in which a quantity differs by more than the wanted class
// allows; -1: none. For a class that goes by means it is the first step that differs at all by
// more than rounding, if the means differ.
func (c *comparison) first(name string) int {
	bound := 0.0
	if name == ofLoss || name == ofNorm {
		switch {
		case c.wanted == Rounding:
			bound = roundingBound
		case c.wanted == Statistical && name == ofLoss && c.similar(c.lossOf, meanBound),
			c.wanted == Statistical && name == ofNorm && c.similar(func(p Point) *float64 { return p.Norm }, normBound):
			return -1
		case c.wanted == Statistical:
			bound = roundingBound
		}
	}
	for i := range c.never.Points {
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
		f.Cause, f.Remedy = c.whyLoss(i)
	case ofNorm:
		f.What = fmt.Sprintf("%.9g instead of %.9g (%s)", *b.Norm, *a.Norm, percent(d))
		f.Cause, f.Remedy = c.whyNorm(i)
	}
	return f
}

// resumes tells whether a world of the rescaled training begins with a step.
func (c *comparison) resumes(i int) bool {
	return i > 0 && c.rescaled.Points[i].Workers != c.rescaled.Points[i-1].Workers
}

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
func (c *comparison) passesDiffer(i int) bool {
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
		return "each device takes as many samples whatever the number of workers, so that the global batch changes with it",
			"give each device bellows.batch_size() // bellows.world_size() samples a step, in bellows.accumulation_steps() parts"
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
func (c *comparison) begin(i int) int {
	for i > 0 && !c.resumes(i) {
		i--
	}
	return i
}

const (
	acceptIt      = "accept --tolerance statistical; or "
	noiseRemedy   = acceptIt + "compute in double precision; or use --logical-workers with bellows.TreeSum for the same bits (docs/when-the-world-changes.md)"
	runningRemedy = acceptIt + "use group or layer norm (docs/when-the-world-changes.md#batch-norm)"
	maskCause     = "random state: dropout masks depend on the rank, so another number of workers has others"
	maskRemedy    = acceptIt + "use --logical-workers with bellows.seed(step, part) and bellows.TreeSum"
	followsLoss   = "it follows the loss"
	streamRemedy  = "skip checkpoint.samples at the start, then take every bellows.world_size()-th sample from bellows.rank() on; or give the data indices (docs/recipes.md#data)"
	normRemedy    = "take a step in bellows.micro_batches, of the same size in all worlds, or use group or layer norm (docs/when-the-world-changes.md#batch-norm)"
)

// noiseBounds are what rounding makes of a loss in few steps, by the precision; noiseBound is that of single precision.
var noiseBounds = map[string]float64{"float64": roundingBound, "float16": 0.01, "bfloat16": 0.05}

const noiseBound = 1e-3

// noiseBound is what rounding may make of a loss, or of a norm.
func (c *comparison) noiseBound() float64 {
	if bound, ok := noiseBounds[c.rescaled.Points[0].Precision]; ok {
		return bound
	}
	return noiseBound
}

// noise names what makes trainings differ a little although all is as it should be.
func (c *comparison) noise() string {
	in := ""
	if p := c.rescaled.Points[0].Precision; p != "" {
		in = " in " + p
	}
	return "rounding" + in + ": sums over another number of workers are in another order, and training magnifies that"
}

// otherwise names how a world computes a step otherwise by what was seen of it, and not by what came of it.
func (c *comparison) otherwise(i int) (cause, remedy string) {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	switch {
	case a.Precision != b.Precision:
		return fmt.Sprintf("precision: numbers are %s with %s, and %s with %s", b.Precision, units.Count(b.Workers, "worker"), a.Precision, units.Count(a.Workers, "worker")),
			"compute with the same type of numbers in all worlds"
	case a.Normalised != b.Normalised && a.Normalised > 0 && b.Normalised > 0:
		also := ""
		if c.dropout() {
			also = "; dropout masks are others, too"
		}
		return fmt.Sprintf("batch statistics: %s normalises by what a device takes at once, %d samples with %s and %d with %s%s", c.batchNorm(),
			b.Normalised, units.Count(b.Workers, "worker"), a.Normalised, units.Count(a.Workers, "worker"), also), normRemedy
	}
	return "", ""
}

// batchNorm is the first layer that normalises by the statistics of a batch.
func (c *comparison) batchNorm() string {
	if len(c.rescaled.BatchNorm) == 0 {
		return "batch norm"
	}
	return c.rescaled.BatchNorm[0]
}

func (c *comparison) whyLoss(i int) (cause, remedy string) {
	if cause, remedy = c.follows(i); cause != "" {
		return cause, remedy
	}
	if cause, remedy = c.otherwise(i); cause != "" {
		return cause, remedy
	}
	d, _ := c.at(ofLoss, i)
	b := c.lossOf(c.rescaled.Points[i])
	noise := c.noiseBound()
	switch {
	case c.resumes(i) && relative(b, c.lossOf(c.never.Points[0])) < roundingBound:
		return "the parameters begin anew: the checkpoint is not loaded", "load bellows.resume() before the loop: model, optimizer and scheduler"
	case c.rescaled.Stream:
		return "the data has no indices, so which samples a step takes is not seen: a stream begins anew after a resume, or is shared out otherwise", streamRemedy
	case c.dropout():
		return maskCause, maskRemedy
	case c.resumes(i) && d > noise:
		return "not all of the state is restored, such as the model's buffers or an average of weights", "save and load all of the model's state_dict()"
	case i > 0 && c.resumes(i-1) && d > noise:
		return "the first step after a resume differs: the optimizer's state is not restored", "save and load optimizer.state_dict()"
	case d <= noise:
		return c.noise(), noiseRemedy
	case i == 0:
		return "the first step differs: other weights, or a loss that is not weighed by the samples of a rank", "make the model from one seed on all ranks; weigh losses by part.weight"
	}
	return "state that is not in the checkpoint, or a loss that is not weighed by the samples of a rank", "save and load all that the loop changes; weigh losses by part.weight"
}

func (c *comparison) whyNorm(i int) (cause, remedy string) {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	d, _ := c.at(ofNorm, i)
	ratio, workers := *b.Norm / *a.Norm, float64(b.Workers)/float64(a.Workers)
	if cause, remedy = c.follows(i); cause != "" {
		return cause, remedy
	}
	if l, _ := c.at(ofLoss, i); l > roundingBound {
		return followsLoss, "see the loss"
	}
	for _, each := range []float64{workers, 1 / workers} {
		if each != 1 && math.Abs(ratio/each-1) < 0.01 {
			return "accumulation: the gradient is scaled by the number of workers, or of micro-batches",
				"DDP takes the mean over ranks: multiply each part's mean loss by part.weight * bellows.world_size()"
		}
	}
	if d <= c.noiseBound() {
		return c.noise(), noiseRemedy
	}
	return "accumulation or clipping: micro-batches are not weighed by their samples, or gradients are clipped before they are whole",
		"multiply each part's mean loss by part.weight * bellows.world_size(), and clip once, after the last part"
}

func (c *comparison) dropout() bool {
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
		Quantity: "random state", Step: p.Step, Workers: p.Workers,
		Remedy: "call bellows.seed(step) before each step, or bellows.seed(step, part) before each micro-batch, instead of one seed at the top",
	}
	for rank, mask := range p.Masks {
		if mask == "" {
			continue
		}
		if other := slices.Index(p.Masks, mask); other < rank {
			f.What = fmt.Sprintf("ranks %d and %d drop the same units", other, rank)
			f.Cause = "all ranks are seeded alike"
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
