package coordinator

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// outOfMemory reports whether a worker of the generation failed for want of memory. Its
// peers may have failed first, in the collective that it no longer came to.
func outOfMemory(in situation) bool {
	return slices.ContainsFunc(in.world().Members, func(m cluster.Member) bool {
		failed := acks(in, m.Node).Failed
		return failed.Exists() && failed.Value.Kind == record.WorkerFailed && failed.Value.OutOfMemory
	})
}

// hasFitted reports whether the job has trained at this size, or at a smaller one that is not
// out of memory: its committed checkpoint was saved there.
func hasFitted(in situation) bool {
	saved := in.Committed.Value.WorldSize // 0: nothing was
	return saved > in.state().OutOfMemory && saved <= in.world().Size()
}

// tooSmall returns the largest world that is known to have too little memory for the job
// once its newest generation is over, 0 if none is. What runs out in the course of a halt
// would do so in a smaller world, where shares are larger. It says less about this one:
// if the job has trained here, what it ran out of may be what the save took besides.
func tooSmall(in situation) int {
	known, size := in.state().OutOfMemory, in.world().Size()
	if !outOfMemory(in) || smallerBatch(in) > 0 {
		return known
	}
	if !hasFitted(in) && len(in.sizes) > 0 && in.sizes[len(in.sizes)-1] > size {
		return size
	}
	fits := size
	if hasFitted(in) {
		fits = in.Committed.Value.WorldSize
	}
	for _, k := range in.sizes {
		if k < fits {
			known = max(known, k)
		}
	}
	return known
}

// smallerBatch returns the batch that the job is to have at most once its newest generation is over, where that
// ran out of memory with a larger one than a world of its size needs: the smallest that all its sizes can
// have. The batch is to blame before the size is. 0 = it is not.
func smallerBatch(in situation) int {
	least := 0
	for _, k := range in.sizes {
		least = max(least, in.Spec.Value.BatchSize.On(k))
	}
	if least == 0 || in.world().BatchSize <= least || !outOfMemory(in) {
		return 0
	}
	return least
}

// remember adds to the state of a job after a halt which worlds have turned out to be too
// small, or which batches too large. What was found out before its owner resumed it is not added again.
func remember(in situation, s record.State) record.State {
	if in.state().Phase == cluster.Halting {
		s.OutOfMemory = max(s.OutOfMemory, tooSmall(in))
		s.BatchLimit = cmp.Or(smallerBatch(in), s.BatchLimit)
	}
	return s
}
