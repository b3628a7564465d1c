package verify

import (
	"fmt"
	"io"
	"strings"

	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/units"
)

// Text writes a result for people.
func (r Result) Text(w io.Writer) error {
	var b strings.Builder
	for _, q := range r.Quantities {
		switch {
		case !q.Seen && r.Stream && q.Name == ofSamples:
			fmt.Fprintf(&b, "%-16s not seen: the data has no indices; only losses can tell (docs/recipes.md#data)\n", q.Name)
		case !q.Seen:
			fmt.Fprintf(&b, "%-16s not seen\n", q.Name)
		case q.FirstStep < 0:
			fmt.Fprintf(&b, "%-16s the same in every step\n", q.Name)
		case q.Name == ofInputs:
			fmt.Fprintf(&b, "%-16s other ones from step %d on, up to %.0f in a step\n", q.Name, q.FirstStep, q.Difference)
		case q.Name == ofSamples:
			fmt.Fprintf(&b, "%-16s other ones from step %d on: %d taken too often, %d too rarely\n", q.Name, q.FirstStep, r.SamplesTwice, r.SamplesNever)
		case q.Name == ofBatch:
			fmt.Fprintf(&b, "%-16s differs from step %d on, by %.0f samples\n", q.Name, q.FirstStep, q.Difference)
		default:
			fmt.Fprintf(&b, "%-16s differs from step %d on, by up to %s\n", q.Name, q.FirstStep, percent(q.Difference))
		}
	}
	switch t := r.Tensors; {
	case t.Count == 0:
		fmt.Fprintf(&b, "%-16s not seen\n", "state at the end")
	case t.Differ == 0:
		fmt.Fprintf(&b, "%-16s %d tensors of parameters and optimizer state, all the same\n", "state at the end", t.Count)
	default:
		fmt.Fprintf(&b, "%-16s %d of %d tensors differ, by up to %s (%s)\n", "state at the end", t.Differ, t.Count, percent(t.Difference), output.OneLine(t.Largest))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n%s\n  likely cause: %s\n  remedy: %s\n", f.where(), f.Cause, f.Remedy)
	}
	for _, f := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n  this is accepted; likely cause: %s\n  to come closer: %s\n", f.where(), f.Cause, f.Remedy)
	}
	fmt.Fprintf(&b, "\n%s: %s\n", r.verdict(), r.Reached)
	_, err := io.WriteString(w, b.String())
	return err
}

// where says what differs, in which step.
func (f Finding) where() string {
	with := ""
	if f.Workers > 0 {
		with = " with " + units.Count(f.Workers, "worker")
	}
	return fmt.Sprintf("%s, step %d%s: %s", f.Quantity, f.Step, with, output.OneLine(f.What))
}

func (r Result) verdict() string {
	if r.Reached.atLeast(r.Wanted) {
		return "the training stays the same"
	}
	return fmt.Sprintf("the training changes (wanted: %s)", r.Wanted)
}

// Good tells whether the wanted class was reached.
func (r Result) Good() bool { return r.Reached.atLeast(r.Wanted) }
