package verify

import (
	"fmt"
	"slices"
)

// Inputs are what the trained module is given, by digests of each sample. Where the samples of a step have indices, these
// decide; inputs tell then only whether random numbers have changed them. Else they tell which data a step takes.

// half of a rank's inputs must have been taken before for its batch to count as taken again: random batches may share a few.
const half = 0.5

// data are the inputs of all ranks of a step; those of one if all ranks have the same.
func (p Point) data() []string {
	for _, inputs := range p.Inputs {
		if !slices.Equal(inputs, p.Inputs[0]) {
			return slices.Concat(p.Inputs...)
		}
	}
	if len(p.Inputs) == 0 {
		return nil
	}
	return p.Inputs[0]
}

// inputsAt tells whether the inputs of a step were seen in both trainings, and whether they are the same over all ranks.
func (c *pair) inputsAt(i int) (seen, same bool) {
	d, seen := c.at(ofInputs, i)
	return seen, seen && d == 0
}

// samplesAt tells whether the samples of a step were seen in both trainings.
func (c *pair) samplesAt(i int) bool {
	_, seen := c.at(ofSamples, i)
	return seen
}

// knownData tells whether it was seen that a step takes the same data in both trainings; other samples are found otherwise.
func (c *pair) knownData(i int) bool {
	_, same := c.inputsAt(i)
	return same || c.samplesAt(i)
}

// otherInputs is the first step that takes other data by its inputs, where its samples were not seen; -1: none does. Inputs that
// differ count where a batch is taken again, or where the loss or the norm differs from then on by more than rounding: a
// batch that is padded otherwise, for example, is the same data.
func (c *pair) otherInputs() int {
	never, rescaled := repeats(c.never), repeats(c.rescaled)
	first := -1
	for i := range c.rescaled.Points {
		seen, same := c.inputsAt(i)
		if !seen || same || c.samplesAt(i) {
			continue
		}
		if first < 0 {
			first = i
		}
		if c.apart(i) || rescaled[i].share >= half && never[i].share < half {
			return first
		}
	}
	return -1
}

// apart tells whether a step's loss or norm differs by more than rounding.
func (c *pair) apart(i int) bool {
	loss, _ := c.at(ofLoss, i)
	norm, _ := c.at(ofNorm, i)
	return max(loss, norm) > c.noiseBound()
}

// repeat is what of a rank's inputs in a step was taken before.
type repeat struct {
	share float64
	rank  int
	of    int // the step that took most of them
}

// repeats are those of each step, of the rank that has most.
func repeats(t Training) []repeat {
	all := make([]repeat, len(t.Points))
	taken := map[string]int{}
	for i, p := range t.Points {
		for rank, inputs := range p.Inputs {
			if share, of := found(inputs, taken); share > all[i].share {
				all[i] = repeat{share, rank, of}
			}
		}
		for _, input := range p.data() {
			if _, ok := taken[input]; !ok {
				taken[input] = p.Step
			}
		}
	}
	return all
}

// found is the share of inputs that steps have taken, and the step that took most of them.
func found(inputs []string, taken map[string]int) (share float64, of int) {
	by := map[int]int{}
	count := 0
	for _, input := range inputs {
		if step, ok := taken[input]; ok {
			count++
			by[step]++
			if by[step] > by[of] || by[step] == by[of] && step < of {
				of = step
			}
		}
	}
	return float64(count) / float64(max(1, len(inputs))), of
}

// inputsFinding says which data a step takes instead of its own.
func (c *comparison) inputsFinding(i int) Finding {
	a, b := c.never.Points[i].data(), c.rescaled.Points[i].data()
	more, less := counts(a, b)
	f := Finding{
		Quantity: ofInputs, Step: c.rescaled.Points[i].Step, Workers: c.rescaled.Points[i].Workers, Difference: float64(max(more, less)),
		What: fmt.Sprintf("%d of %d inputs are not what the step takes without a rescale", more, len(b)),
	}
	f.Cause, f.Remedy = c.whyInputs(i, len(a), len(b))
	return f
}

const drawRemedy = "draw the batch of a step for all ranks from a generator that is seeded with the step, and take this rank's part of it; or take bellows.indices(step, n)"

func (c *comparison) whyInputs(i, before, now int) (cause, remedy string) {
	b := c.rescaled.Points[i]
	if c.equal(i) {
		return "two equal worlds take other data: random numbers without a seed choose it", drawRemedy
	}
	if cause, remedy = c.alikeCause(i); cause != "" {
		return cause, remedy
	}
	if r, never := repeats(c.rescaled)[i], repeats(c.never)[i]; r.share >= half && never.share < half {
		return fmt.Sprintf("step %d takes step %d's batches: rank %d has taken %.0f %% of its inputs before, because its random numbers, or its loader, begin anew after a resume",
			b.Step, r.of, r.rank, 100*r.share), drawRemedy
	}
	if before*b.Workers == now*c.never.Points[i].Workers && before != now {
		return eachDevice, eachDeviceRemedy
	}
	taken := map[string]int{}
	for _, p := range c.never.Points {
		for _, input := range p.data() {
			taken[input] = p.Step
		}
	}
	if share, of := found(b.data(), taken); share >= half && of != b.Step {
		return fmt.Sprintf("step %d takes what step %d takes without a rescale: what was consumed is counted per process, or batches are skipped or read ahead across the resume", b.Step, of), samplesRemedy
	}
	return "each rank draws its own batches, so that another number of ranks takes other data; or the inputs are changed by random numbers, and which samples they are was not seen", drawRemedy
}

// alike finds two ranks that train on the same inputs, of data that changes from step to step. Ranks that take a whole data set each
// do so on purpose.
func (c *pair) alike() (f Finding, found bool) {
	for i, p := range c.rescaled.Points {
		if cause, remedy := c.alikeCause(i); cause != "" {
			first, second := sameInputs(p)
			return Finding{
				Quantity: randomState, Step: p.Step, Workers: p.Workers, What: fmt.Sprintf("ranks %d and %d train on the same inputs", first, second), Cause: cause, Remedy: remedy,
			}, true
		}
	}
	return f, false
}

func (c *pair) alikeCause(i int) (cause, remedy string) {
	p := c.rescaled.Points[i]
	other := c.rescaled.Points[max(0, i-1)]
	if c.begin(i) == i { // of the same world
		other = c.rescaled.Points[min(i+1, len(c.rescaled.Points)-1)]
	}
	if first, second := sameInputs(p); first == second || len(other.Inputs) == 0 || slices.Equal(p.Inputs[0], other.Inputs[0]) {
		return "", ""
	}
	return "the ranks draw the same random numbers, as where all are seeded alike, or take the same batch", drawRemedy
}

// sameInputs are the first two ranks that have the same inputs in a step; twice 0: none have.
func sameInputs(p Point) (first, second int) {
	for second = range p.Inputs {
		for first = range second {
			if slices.Equal(p.Inputs[first], p.Inputs[second]) {
				return first, second
			}
		}
	}
	return 0, 0
}
