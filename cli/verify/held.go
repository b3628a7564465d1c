package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/internal/units"
)

// lostHeld finds state that the script holds beside the optimizer's, such as an average of weights, and that a world begins
// anew: the world before has changed it, and the new one comes to its first step with what the first world had there, or with
// a copy of the weights. What is a copy of them in each step is none.
func (c *pair) lostHeld() (all []Finding) {
	worlds := c.rescaled.Held
	for n := 1; n < len(worlds) && n <= len(c.rescaled.Resumes); n++ {
		var lost []string
		copies := 0
		for _, name := range slices.Sorted(maps.Keys(worlds[n].Began)) {
			now := worlds[n].Began[name]
			before, seen := worlds[n-1].Began[name]
			saved, ended := worlds[n-1].Ended[name]
			first, known := worlds[0].Began[name]
			if !seen || !ended || saved.Copy || before.Digest == saved.Digest || now.Digest == saved.Digest || !now.Copy && (!known || now.Digest != first.Digest) {
				continue
			}
			lost = append(lost, name)
			if now.Copy {
				copies++
			}
		}
		if len(lost) == 0 {
			continue
		}
		how := "what it was at the first start"
		if copies > 0 {
			how = "a copy of the weights"
		}
		r := c.rescaled.Resumes[n-1]
		return []Finding{{
			Quantity: "held state", Step: r.Step, Workers: r.Workers,
			What:   fmt.Sprintf("%s that the script holds %s anew, as %s is %s again", units.Count(len(lost), "tensor"), begins(len(lost)), lost[0], how),
			Cause:  fmt.Sprintf("the checkpoint does not hold %s, such as an average of weights that is kept by hand, or the script does not restore it", lost[0]),
			Remedy: "save it with the checkpoint, and load it before the loop",
		}}
	}
	return nil
}

func begins(count int) string {
	if count == 1 {
		return "begins"
	}
	return "begin"
}
