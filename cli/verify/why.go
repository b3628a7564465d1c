package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/internal/units"
)

// why is what makes a loss or a norm differ.
type why struct {
	cause, remedy string
	accepted      bool // the training is the same on average: by rounding, batch statistics or random numbers, of data that was seen to be the same
	rounding      bool
}

func (w why) say() (cause, remedy string) { return w.cause, w.remedy }

func (c *comparison) why(name string, i int) why {
	if name == ofNorm {
		return c.whyNorm(i)
	}
	return c.whyLoss(i)
}

// Bounds of what is accepted.
const (
	// growth is by how much rounding may grow from one step to the next; more is a jump, which has another cause.
	growth = 30
	// equalBound is by how much more than two equal worlds worlds of other sizes may differ, by the root of the mean square.
	equalBound = 6
)

// unaccepted is the first step in which a quantity differs by more than rounding without a cause that is accepted; -1: none.
func (c *comparison) unaccepted(name string) int {
	i := c.beyond(name, roundingBound, 0)
	if i < 0 {
		return -1
	}
	w := c.why(name, i)
	if !w.accepted {
		return i
	}
	if w.rounding {
		if j := c.jump(name, i); j >= 0 && !c.why(name, j).accepted {
			return j
		}
	}
	return c.beyondEqual(name)
}

// jump is the first step after one in which a quantity differs by more than rounding and than what rounding was before can have grown to; -1: none.
func (c *pair) jump(name string, after int) int {
	before, _ := c.at(name, after)
	for i := after + 1; i < len(c.never.Points); i++ {
		d, seen := c.at(name, i)
		if seen && d > c.noiseBound() && d > growth*before {
			return i
		}
		before = max(before, d)
	}
	return -1
}

// equalNoise is by how much a quantity differs in two equal worlds: the mean of squares, and the most; 0: not at all.
func (c *pair) equalNoise(name string) (square, most float64) {
	steps := 0.0
	for i := range c.never.Points {
		if d, seen := c.at(name, i); seen && c.equal(i) {
			square, most, steps = square+d*d, max(most, d), steps+1
		}
	}
	return square / max(1, steps), most
}

// beyondEqual is the first step after the equal worlds that differs by more than they do, where all steps after them together do; -1: none.
func (c *pair) beyondEqual(name string) int {
	equal, most := c.equalNoise(name)
	later, steps, first := 0.0, 0.0, -1
	for i := range c.never.Points {
		d, seen := c.at(name, i)
		if !seen || c.equal(i) {
			continue
		}
		later, steps = later+d*d, steps+1
		if first < 0 && d > most {
			first = i
		}
	}
	if most <= roundingBound || later <= steps*equalBound*equalBound*equal {
		return -1
	}
	return first
}

// whyUnaccepted is why where the training is not the same on average: a cause that would be accepted does not explain more than two equal worlds differ by.
func (c *comparison) whyUnaccepted(name string, i int) why {
	w := c.why(name, i)
	if w.cause == followsLoss && c.wanted == Statistical && c.fine(ofLoss) { // of which nothing is said
		w = c.whyLoss(i)
	}
	if _, most := c.equalNoise(name); w.accepted && w.cause != followsLoss && most > roundingBound && c.beyondEqual(name) == i {
		w.cause = fmt.Sprintf("it differs by more than two equal worlds do, which is %s at most; beside that, %s", percent(most), w.cause)
	}
	return w
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
func (c *pair) noiseBound() float64 {
	if bound, ok := noiseBounds[c.rescaled.Points[0].Precision]; ok {
		return bound
	}
	return noiseBound
}

// noise names what makes trainings differ a little although all is as it should be.
func (c *pair) noise() string {
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
func (c *pair) batchNorm() string {
	if len(c.rescaled.BatchNorm) == 0 {
		return "batch norm"
	}
	return c.rescaled.BatchNorm[0]
}

// scale explains a loss and a norm that both have the ratio of the numbers of workers. (A loss that is divided by it is, summed over ranks, the same.)
func (c *comparison) scale(i int) (w why, found bool) {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	if a.Norm == nil || b.Norm == nil || *a.Norm == 0 || *c.lossOf(a) == 0 {
		return w, false
	}
	bound := 0.01
	if c.dropout() {
		bound = 0.1
	}
	loss, norm, workers := *c.lossOf(b) / *c.lossOf(a), *b.Norm / *a.Norm, float64(b.Workers)/float64(a.Workers)
	if workers == 1 || math.Abs(loss/workers-1) > bound || math.Abs(norm/workers-1) > bound {
		return w, false
	}
	return why{
		cause: fmt.Sprintf("the loss is multiplied by the number of workers: loss and gradient norm are %.3g times what they are without a rescale, with %s instead of %d",
			workers, units.Count(b.Workers, "worker"), a.Workers),
		remedy: "leave the number of workers out of the loss: DDP takes the mean of the ranks' gradients; weigh the mean loss of a part by part.weight * bellows.world_size()",
	}, true
}

// whyEqual explains a loss that differs in two equal worlds, which no number of workers explains.
func (c *comparison) whyEqual(i int) why {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	d, _ := c.at(ofLoss, i)
	seen, same := c.inputsAt(i)
	known := len(c.never.Began) > 0 && len(c.rescaled.Began) > 0
	switch {
	case known && !sameValues(c.never.Began, c.rescaled.Began):
		return why{cause: "two equal worlds begin with other weights: random numbers without a seed make them", remedy: "make the model from one seed on all ranks"}
	case seen && !same && c.samplesAt(i):
		return why{
			cause:    "two equal worlds get other inputs of the same samples: random numbers without a seed change them, as of augmentation",
			remedy:   acceptIt + "call bellows.seed(step) before each step, or have bellows.Seeded(dataset) seed each sample",
			accepted: true,
		}
	case otherMasks(a.Masks, b.Masks):
		return why{
			cause:  "two equal worlds drop other units: the random numbers of dropout have no seed",
			remedy: acceptIt + "call bellows.seed(step) before each step", accepted: c.knownData(i),
		}
	case d <= c.noiseBound():
		return why{cause: c.noise(), remedy: noiseRemedy, accepted: true, rounding: true}
	case known:
		return why{
			cause:  "two equal worlds differ from the same weights: random numbers without a seed, or an algorithm that is not deterministic",
			remedy: acceptIt + "call bellows.seed(step) before each step", accepted: c.knownData(i),
		}
	}
	return why{cause: "the first step differs in two equal worlds: other weights, or random numbers without a seed", remedy: "make the model from one seed on all ranks, and call bellows.seed(step) before each step"}
}

// otherMasks tells whether a rank has drawn others for its dropout.
func otherMasks(a, b []string) bool {
	for rank := range min(len(a), len(b)) {
		if a[rank] != "" && b[rank] != "" && a[rank] != b[rank] {
			return true
		}
	}
	return false
}

// sameValues tells whether two states have the same values, as far as both have them.
func sameValues(a, b []Tensor) bool {
	digests := map[string]string{}
	for _, t := range a {
		digests[t.Name] = t.Digest
	}
	return !slices.ContainsFunc(b, func(t Tensor) bool {
		before, ok := digests[t.Name]
		return ok && before != t.Digest
	})
}

func (c *comparison) whyLoss(i int) why {
	if cause, remedy := c.follows(i); cause != "" {
		return why{cause: cause, remedy: remedy}
	}
	if j := c.normBefore(i); j >= 0 {
		return why{cause: "it follows the " + ofNorm, remedy: "see the " + ofNorm}
	}
	if cause, remedy := c.otherwise(i); cause != "" {
		return why{cause: cause, remedy: remedy, accepted: true}
	}
	if w, ok := c.scale(i); ok {
		return w
	}
	if c.equal(i) {
		return c.whyEqual(i)
	}
	d, _ := c.at(ofLoss, i)
	noise := c.noiseBound()
	seen, same := c.inputsAt(i)
	switch {
	case c.resumes(i) && relative(c.lossOf(c.rescaled.Points[i]), c.lossOf(c.never.Points[0])) < roundingBound:
		return why{cause: "the parameters begin anew: the checkpoint is not loaded", remedy: "load bellows.resume() before the loop: model, optimizer and scheduler"}
	case c.rescaled.Stream && d > noise && !same:
		return why{cause: "the data has no indices, so which samples a step takes is not seen: a stream begins anew after a resume, or is shared out otherwise", remedy: streamRemedy}
	case d > noise && !c.knownData(i):
		return why{
			cause:  "which data a step takes was not seen: it takes other data, or goes on with other state, after a resume",
			remedy: "take samples by bellows.indices(step, n) or from a DataLoader; save and load all that the loop changes",
		}
	case c.dropout():
		return why{cause: maskCause, remedy: maskRemedy, accepted: true}
	case seen && !same && d > noise:
		return why{
			cause:  "the inputs of the same samples are others: random numbers of a rank change them, as of augmentation, so another number of workers has others",
			remedy: acceptIt + "have bellows.Seeded(dataset) seed each sample", accepted: true,
		}
	case d <= noise:
		return why{cause: c.noise(), remedy: noiseRemedy, accepted: true, rounding: true}
	case c.resumes(i):
		return why{cause: "not all of the state is restored, such as the model's buffers", remedy: "save and load all of the model's state_dict()"}
	case i > 0 && c.resumes(i-1) && (c.resume(i-1) == nil || len(c.resume(i-1).Began) == 0):
		return why{cause: "the first step after a resume differs: the optimizer's state is not restored", remedy: "save and load optimizer.state_dict()"}
	}
	return why{
		cause:  "state that is not in the checkpoint, or a loss that is not weighed by the samples of a rank",
		remedy: "save and load all that the loop changes; weigh losses by part.weight",
	}
}

// normBefore is a step before one whose norm differs by more than rounding, though its loss does not; -1: there is none.
func (c *pair) normBefore(i int) int {
	for j := range i {
		loss, _ := c.at(ofLoss, j)
		if norm, seen := c.at(ofNorm, j); seen && norm > c.noiseBound() && norm > growth*loss {
			return j
		}
	}
	return -1
}

func (c *comparison) whyNorm(i int) why {
	a, b := c.never.Points[i], c.rescaled.Points[i]
	d, _ := c.at(ofNorm, i)
	ratio, workers := *b.Norm / *a.Norm, float64(b.Workers)/float64(a.Workers)
	if cause, remedy := c.follows(i); cause != "" {
		return why{cause: cause, remedy: remedy}
	}
	if l, _ := c.at(ofLoss, i); l > roundingBound && d <= max(c.noiseBound(), growth*l) {
		return why{cause: followsLoss, remedy: "see the loss", accepted: true}
	}
	for _, each := range []float64{workers, 1 / workers} {
		if each != 1 && math.Abs(ratio/each-1) < 0.01 {
			return why{
				cause:  "accumulation: the gradient is scaled by the number of workers, or of micro-batches",
				remedy: "DDP takes the mean over ranks: multiply each part's mean loss by part.weight * bellows.world_size()",
			}
		}
	}
	if d <= c.noiseBound() {
		return why{cause: c.noise(), remedy: noiseRemedy, accepted: true, rounding: true}
	}
	return why{
		cause:  "accumulation or clipping: micro-batches are not weighed by their samples, or gradients are clipped before they are whole",
		remedy: "multiply each part's mean loss by part.weight * bellows.world_size(), and clip once, after the last part",
	}
}
