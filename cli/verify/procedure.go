package verify

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/bellows-ml/bellows/internal/units"
)

// faults are what a world was seen to do otherwise than it should, whatever came of it: state with which it
// does not go on, and gradients that are clipped part by part. They count only where the trainings differ by more
// than rounding: a script may change what it has loaded, and clip what is small enough.
func (c *comparison) faults() (all []Finding) {
	for _, r := range c.rescaled.Resumes {
		if f, ok := r.lost(); ok {
			all = append(all, f)
			break
		}
	}
	if f, ok := c.alike(); ok {
		all = append(all, f)
	}
	for i, b := range c.rescaled.Points {
		a := c.never.Points[i]
		if a.Clipped == b.Clipped || !a.clipsParts() || !b.clipsParts() {
			continue
		}
		return append(all, Finding{
			Quantity: "gradient clipping", Step: b.Step, Workers: b.Workers,
			What:   fmt.Sprintf("gradients are clipped %s in the step instead of %s", units.Count(b.Clipped, "time"), units.Count(a.Clipped, "time")),
			Cause:  "gradients are clipped before they are whole: once for each micro-batch",
			Remedy: "clip once a step, after the backward pass of the last part",
		})
	}
	return all
}

// clipsParts tells whether gradients are clipped after each backward pass of a step.
func (p Point) clipsParts() bool {
	return p.Clipped > 0 && len(p.Backwards) > 0 && p.Clipped == p.Backwards[0]
}

// follows names what a difference of loss or norm in a step is a consequence of; empty: there is nothing before it.
func (c *comparison) follows(i int) (cause, remedy string) {
	after := func(what string) (string, string) { return "it follows the " + what, "see the " + what }
	for _, f := range c.broken {
		if f.Step <= c.rescaled.Points[i].Step {
			return after(f.Quantity)
		}
	}
	if j := c.otherInputs(); j >= 0 && j <= i {
		return after(ofInputs)
	}
	for _, name := range []string{ofSamples, ofLR} {
		for j := range i + 1 {
			// A rate changes what comes after its step.
			if d, seen := c.at(name, j); seen && d > 0 && (j < i || name == ofSamples) {
				return after(name)
			}
		}
	}
	return "", ""
}

var parameterName = regexp.MustCompile(`^optimizer (\d+) group \d+ parameter \d+`)

// kinds of state there are, and what they are called in the order in which they are named.
const kinds = 5

var kindsOfState = [kinds]struct{ name, remedy string }{
	{"parameters are", "load bellows.resume() before the loop, and before the model is wrapped: model, optimizer and scheduler"},
	{"optimizer's state is", "save and load optimizer.state_dict()"},
	{"running statistics of batch norm are", "save and load all of model.state_dict(), not its parameters alone"},
	{"factor of the loss scaler is", "save and load scaler.state_dict()"},
	{"average of weights is", "save and load the state_dict() of the AveragedModel"},
}

// Names of state that is no optimizer's begin with these.
const (
	ofScaler  = "loss scaler "
	ofAverage = "average "
)

// kindOfState is the number of a tensor's kind.
func kindOfState(name string) int {
	switch parameter := parameterName.FindString(name); {
	case strings.HasPrefix(name, ofAverage):
		return 4
	case strings.HasPrefix(name, ofScaler):
		return 3
	case isBatchNorm(name):
		return 2
	case parameter != "" && parameter != name:
		return 1
	}
	return 0
}

// lost finds state with which a world does not go on as it was saved.
func (r Resume) lost() (f Finding, found bool) {
	began := map[string]Tensor{}
	seen := map[string]bool{} // optimizers, or batch norm
	for _, t := range r.Began {
		began[t.Name] = t
		seen[owner(t.Name)] = true
	}
	var count, differ, missing [kinds]int
	var worst [kinds]float64
	var name [kinds]string
	for _, t := range r.Saved {
		kind, apart := kindOfState(t.Name), math.Inf(1)
		if !seen[owner(t.Name)] {
			continue
		}
		count[kind]++
		if b, ok := began[t.Name]; ok && len(b.Values) == len(t.Values) {
			if apart = nearest(b.Values, t); apart <= roundingBound || math.IsNaN(apart) {
				continue
			}
		} else {
			missing[kind]++
		}
		differ[kind]++
		if name[kind] == "" || apart > worst[kind] {
			worst[kind], name[kind] = apart, t.Name
		}
	}
	for kind, k := range kindsOfState {
		if differ[kind] == 0 {
			continue
		}
		how := "not what was saved"
		if missing[kind] == differ[kind] {
			how = "not restored"
		}
		return Finding{
			Quantity: "resumed state", Step: r.Step, Workers: r.Workers, Difference: min(worst[kind], math.MaxFloat64),
			What:  fmt.Sprintf("%d of %s are not as they were saved, %s most", differ[kind], units.Count(count[kind], "tensor"), name[kind]),
			Cause: fmt.Sprintf("the %s %s", k.name, how), Remedy: k.remedy,
		}, true
	}
	return f, false
}

// nearest is how far values are from what any rank held.
func nearest(values []float64, of Tensor) float64 {
	least, _ := between(of.Values, values)
	for _, other := range of.Others {
		if len(other) == len(values) {
			apart, _ := between(other, values)
			least = min(least, apart)
		}
	}
	return least
}

// owner is whose state a tensor is: an optimizer's, batch norm's, an average's or a scaler's; of others what was loaded is not seen.
func owner(name string) string {
	if m := parameterName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	switch {
	case isBatchNorm(name):
		return strings.Join(strings.Fields(name)[:3], " ")
	case strings.HasPrefix(name, ofAverage):
		return strings.Join(strings.Fields(name)[:2], " ")
	}
	return name
}

// between is how far two lists of values are apart at most, relative to the largest of them, and the absolute distance.
func between(a, b []float64) (relative, apart float64) {
	scale := 0.0
	for i := range a {
		apart = max(apart, math.Abs(a[i]-b[i]))
		scale = max(scale, math.Abs(a[i]), math.Abs(b[i]))
	}
	if scale > 0 {
		relative = apart / scale
	}
	return relative, apart
}
