package verify

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
)

// Class is how equal two trainings are.
type Class string

// The classes, the strictest first. All of them demand the same samples, the same learning rate and
// the same global batch in each step, and random numbers that do not repeat.
const (
	Bitwise     Class = "bitwise"     // losses, gradient norms, parameters and optimizer state have the same bits
	Rounding    Class = "1e-6"        // they differ by a millionth at most, relative to the largest value of a tensor
	Statistical Class = "statistical" // losses and gradient norms are on average the same, within what they scatter
	Different   Class = "different"   // none of these
)

var classes = []Class{Bitwise, Rounding, Statistical, Different}

// atLeast tells whether the class is as strict as the other, or stricter.
func (c Class) atLeast(wanted Class) bool {
	for _, each := range classes {
		if each == c || each == wanted {
			return each == c
		}
	}
	return false
}

// Options say what to verify.
type Options struct {
	Command        []string
	Sizes          []int // of the worlds, in turn; a training that is never rescaled has the first
	Nodes          int   // that a world's workers are told to be on, as many on each; a smaller world is on as many as it has workers
	StepsEach      int   // steps that each world trains
	BatchSize      int
	Uneven         bool // shares of the batch may differ by one sample
	MicroBatch     int  // 0: the share of a device in the largest world
	LogicalWorkers int  // 0: as many as there are workers
	Tolerance      Class
	GPUs           bool          // the script sees this machine's; else none
	Limit          time.Duration // for one world
	Keep           string        // where what the worlds leave stays; "": it is removed
	Told           io.Writer     // what happens, for people
}

const (
	maxSize  = 64
	maxSteps = 10000
)

// Check finds what is wrong with the options, as values of the flags of bellows verify.
func (o *Options) Check() error {
	if o.Nodes < 1 {
		return fault.Usage("--nodes %d: use 1 or more", o.Nodes)
	}
	largest := 0
	for _, k := range o.Sizes {
		switch {
		case k < 1 || k > maxSize:
			return fault.Usage("--sizes %d: use numbers of workers from 1 to %d: each is a process of this machine", k, maxSize)
		case o.BatchSize%k != 0 && !o.Uneven:
			return fault.Usage("--sizes %d: a batch of %d samples is not shared evenly by so many workers: set --batch-size to a multiple, "+
				"or add --uneven-batch if the script weighs its shares", k, o.BatchSize)
		case o.BatchSize < k:
			return fault.Usage("--sizes %d: a batch of %d samples leaves a worker without any: use a larger --batch-size", k, o.BatchSize)
		case o.MicroBatch > 0 && !o.Uneven && o.MicroBatch < o.BatchSize/k && o.BatchSize/k%o.MicroBatch != 0:
			return fault.Usage("--micro-batch %d: it does not divide %d, the share of each of %s: use a number that divides each share, or leave it out",
				o.MicroBatch, o.BatchSize/k, units.Count(k, "worker"))
		case k > o.Nodes && k%o.Nodes != 0:
			return fault.Usage("--nodes %d: %d workers are not shared evenly by so many nodes: use a number that divides each of --sizes", o.Nodes, k)
		}
		largest = max(largest, k)
	}
	switch {
	case len(o.Sizes) < 2:
		return fault.Usage("--sizes: name two or more, as in 8,4,8")
	case o.StepsEach < 1 || o.StepsEach*len(o.Sizes) > maxSteps:
		return fault.Usage("--steps-each %d: use 1 or more, up to %d over all sizes", o.StepsEach, maxSteps)
	case o.BatchSize < 1:
		return fault.Usage("--batch-size %d: use 1 or more", o.BatchSize)
	case o.MicroBatch < 0 || o.MicroBatch > o.BatchSize:
		return fault.Usage("--micro-batch %d: use 1 to %d, the batch", o.MicroBatch, o.BatchSize)
	case o.Tolerance != Bitwise && o.Tolerance != Rounding && o.Tolerance != Statistical:
		return fault.Usage("--tolerance %q: use %s, %s or %s", o.Tolerance, Bitwise, Rounding, Statistical)
	case o.Limit <= 0:
		return fault.Usage("--limit %s: use a time above zero such as 10m", o.Limit)
	}
	if err := o.checkLogical(largest); err != nil {
		return err
	}
	if o.MicroBatch == 0 {
		o.MicroBatch = (o.BatchSize + largest - 1) / largest
	}
	return nil
}

// checkLogical finds what bellows run would refuse, too.
func (o *Options) checkLogical(largest int) error {
	n := o.LogicalWorkers
	uneven := slices.IndexFunc(o.Sizes, func(k int) bool { return n > 0 && n%k != 0 })
	switch {
	case n < 0 || n&(n-1) != 0:
		return fault.Usage("--logical-workers %d: use a power of two, or leave it out", n)
	case n > 0 && n < largest:
		return fault.Usage("--logical-workers %d: --sizes has %d workers, each of which needs one: use a power of two from %d on", n, largest, largest)
	case uneven >= 0:
		return fault.Usage("--sizes %d: so many workers cannot share %d logical workers equally: name powers of two only", o.Sizes[uneven], n)
	case n > 0 && o.BatchSize%n != 0:
		return fault.Usage("--logical-workers %d: they cannot share --batch-size %d equally: use a multiple of %d samples", n, o.BatchSize, n)
	}
	return nil
}

// Steps is how many steps a training takes in all.
func (o *Options) Steps() int { return o.StepsEach * len(o.Sizes) }

func (o *Options) tell(text string) {
	if o.Told != nil {
		_, _ = io.WriteString(o.Told, strings.TrimRight(text, "\n")+"\n") // for people: nothing is lost without it
	}
}
