package cluster

import (
	"slices"
	"strings"
)

// Rules by which the learning rate follows the batch.
const (
	LRNone   = "none"   // it does not
	LRLinear = "linear" // it grows as the batch does
	LRSqrt   = "sqrt"   // it grows as the square root of the batch
)

var lrRules = []string{LRLinear, LRSqrt, LRNone}

// Training is what the owner declares of how a step is made while the number of workers,
// or the batch, changes. Workers are told, and the script, or Bellows's module in it,
// obeys. The zero value declares nothing.
type Training struct {
	// MicroBatch is how many samples a device takes at once; it accumulates the
	// gradients of its share. 0 = Spec.MicroBatch's.
	MicroBatch int `json:"micro_batch,omitempty"`
	// LogicalWorkers is into how many parts each step is cut whatever the world's size,
	// a power of two; 0 = into as many as there are workers.
	LogicalWorkers int `json:"logical_workers,omitempty"`
	// LRRule is how the learning rate follows a batch that differs from the smallest;
	// empty = LRNone.
	LRRule string `json:"lr_rule,omitempty"`
	// LRWarmup is in how many steps a change of the learning rate by that rule is made; 0 = at once.
	LRWarmup int `json:"lr_warmup,omitempty"`
}

// MicroBatch returns how many samples a device takes at once: what was given, or the
// share of a device in the job's largest world, so that a smaller one needs no more memory.
func (s Spec) MicroBatch() int {
	if s.Training.MicroBatch > 0 {
		return s.Training.MicroBatch
	}
	sizes := s.WorldSizes()
	if len(sizes) == 0 {
		return max(1, s.BatchSize.Min)
	}
	return s.share(sizes[len(sizes)-1])
}

// share is how many samples each of k workers takes in a step, at most.
func (s Spec) share(k int) int { return max(1, (s.BatchSize.On(k)+k-1)/k) }

func (s Spec) validateTraining(add func(string, ...any)) {
	t := s.Training
	switch {
	case t.LRRule != "" && !slices.Contains(lrRules, t.LRRule):
		add("lr rule %.*q: use %s", quoted, t.LRRule, strings.Join(lrRules, ", "))
	case t.LRRule != "" && t.LRRule != LRNone && s.BatchSize.Min > 0 && s.BatchSize.Min == s.BatchSize.Max:
		add("lr rule %s: batch size %d does not change, and so the learning rate does not either; let the batch range, as in %d:%d, or leave lr rule out",
			t.LRRule, s.BatchSize.Min, s.BatchSize.Min, 4*s.BatchSize.Min)
	}
	switch {
	case t.LRWarmup < 0 || t.LRWarmup > MaxSteps:
		add("lr warmup %d: use a number of steps from 1 to %d, or leave it out if the learning rate may change at once", t.LRWarmup, int64(MaxSteps))
	case t.LRWarmup > 0 && (t.LRRule == "" || t.LRRule == LRNone):
		add("lr warmup %d: without lr rule %s or %s the learning rate does not change; add one, or leave it out", t.LRWarmup, LRLinear, LRSqrt)
	}
	sizes := s.WorldSizes()
	if len(sizes) == 0 || s.BatchSize.Min < 1 {
		return // which is refused by itself
	}
	s.validateMicroBatch(add, sizes)
	s.validateLogical(add, sizes)
}

func (s Spec) validateMicroBatch(add func(string, ...any), sizes []int) {
	m := s.Training.MicroBatch
	switch {
	case m == 0:
		return
	case m < 0:
		add("micro batch %d: use a number of samples from 1, or leave it out", m)
		return
	case m > s.BatchSize.Max:
		add("micro batch %d is above batch size %d: no device ever takes so many; use %d or less", m, s.BatchSize.Max, s.fits(s.BatchSize.Max, sizes))
		return
	}
	for _, k := range sizes {
		if share := s.share(k); !s.BatchSize.Uneven && !even(share, m) {
			add("micro batch %d does not divide %d, a worker's share of batch size %d in a world of %d: use %d, or leave it out",
				m, share, s.BatchSize.On(k), k, s.fits(m, sizes))
			return
		}
	}
}

// fits is the largest micro-batch up to most that divides the shares of all sizes, or a
// smaller one that does where it would take long to find.
func (s Spec) fits(most int, sizes []int) int {
	const tries = 1 << 12
	most = min(most, s.share(sizes[0]))
	for m := most; m > max(1, most-tries); m-- {
		if !slices.ContainsFunc(sizes, func(k int) bool { return !even(s.share(k), m) }) {
			return m
		}
	}
	return 1
}

// even reports whether a share is made of whole micro-batches; a smaller one is taken at once.
func even(share, m int) bool { return share <= m || share%m == 0 }

func (s Spec) validateLogical(add func(string, ...any), sizes []int) {
	n, largest := s.Training.LogicalWorkers, sizes[len(sizes)-1]
	listed := slices.IndexFunc(sizes, func(k int) bool { return k&(k-1) != 0 })
	switch {
	case n == 0:
	case n < 0 || n > MaxWorldSize || n&(n-1) != 0:
		add("logical workers %d: use a power of two, such as %d, or leave it out", n, powerFrom(largest))
	case listed >= 0:
		add("logical workers %d: worlds of %d workers cannot share them equally: list powers of two only in world sizes, or leave it out", n, sizes[listed])
	case n < largest:
		add("logical workers %d: the job may have %d workers, each of which needs one: use %d or more, or lower max workers", n, largest, largest)
	case s.BatchSize.Max != s.BatchSize.Min:
		add("logical workers %d: another batch is another training, whatever they do: give one batch size instead of %d:%d, or leave it out",
			n, s.BatchSize.Min, s.BatchSize.Max)
	case s.BatchSize.Min%n != 0:
		add("logical workers %d: they cannot share batch size %d equally: use a multiple of %d samples", n, s.BatchSize.Min, n)
	}
}

// powerFrom is the smallest power of two from k on.
func powerFrom(k int) int {
	p := 1
	for p < k {
		p *= 2
	}
	return p
}
