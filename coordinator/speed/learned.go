package speed

import (
	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/cluster"
)

// learned is what follows from a job's speed record, that of its kind, and what the
// running generation has shown. It is remembered only because it takes time.
type learned struct {
	spec, speed, kind int64 // their revisions
	live              live
	perNode           int
	ranges            forecast.Range
	sizes             []int
	name              string // of its kind
	forecast.Learned
	on     map[string]forecast.Learned // the same by model of devices, where there are several
	levels map[string]float64          // with which on was made

	recorded looked // where it was found that there is nothing to record
}

// live is what of the running generation changes what is learnt: so many windows more
// tell something that the speed record does not have yet.
type live struct {
	generation cluster.Generation
	windows    int // as a power of two
	void       bool
}

// looked is what a speed record is made from.
type looked struct {
	state, speed int64 // their revisions
	folds        int
}
