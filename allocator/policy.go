package allocator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Policy decides how many workers each job gets. It is a pure function: a value
// that it wants to remember goes into Output.Memory and comes back in the next Input.
type Policy interface {
	Name() string
	Allocate(Input) Output
}

// Timeless is what a policy may implement whose answer, once it is in force, stays
// the same however much time passes and work gets done, until a job or a node
// comes, goes or changes. All others are asked again at each interval's end.
type Timeless interface{ Timeless() bool }

// IsTimeless reports whether the policy says so of itself.
func IsTimeless(p Policy) bool {
	t, ok := p.(Timeless)
	return ok && t.Timeless()
}

// Prompt is what a policy may implement that wants to be asked fully not only at
// each interval's end but also soon after a job or a node comes or goes. It has to
// weigh what a rescale costs by itself: the interval does not do it.
type Prompt interface{ Prompt() bool }

// IsPrompt reports whether the policy says so of itself.
func IsPrompt(p Policy) bool {
	t, ok := p.(Prompt)
	return ok && t.Prompt()
}

// Promising is what a policy may implement that gives a job in each slot of time at
// least what its promise says. A coordinator with any other promises no deadlines.
type Promising interface {
	// PromiseSizes are those of a job's sizes with which its promise may be planned.
	PromiseSizes(sizes []int) []int
}

// Chooser is what a policy may implement that chooses by itself on which model's devices jobs run
// where there are several. The devices of each model are then asked about by themselves.
type Chooser interface {
	// Choose returns the model for jobs of a question about devices of all models; of those that
	// it leaves out Run decides. It may name one for a job that is to wait. Unless that is binding, what
	// waits there is asked about again where devices of another model are idle. Rates are those of the
	// devices: what an owner prefers (OnModel.Preferred) is for the policy to count.
	Choose(in Input) (models map[cluster.JobID]string, binding bool)
}

// Input is the snapshot that a decision is made from. Policies must not modify it.
type Input struct {
	Now   time.Time
	Seed  uint64
	Nodes []cluster.Node // alive, sorted by ID; cordoned ones have no usable devices
	Jobs  []JobView      // every job that runs or waits, sorted by SubmittedAt, then ID
	// Between marks a question asked between two intervals: idle devices may go to
	// waiting jobs, and everything that runs keeps what it has.
	Between bool
	// Interval is the time between two questions that may move running jobs, for which an
	// answer is in force; 0 = not known.
	Interval time.Duration
	Memory   []byte // the last Output.Memory, nil at first

	devices *Devices // of Nodes, read once by Run for itself and the policy
}

// JobView is what a policy may know of a job.
type JobView struct {
	ID          cluster.JobID
	Sizes       []int // the world sizes it may have, ascending, never empty: powers of two unless its owner has listed others
	BatchSize   cluster.BatchSize
	Priority    int
	Deadline    time.Time // zero = none
	SubmittedAt time.Time
	Workers     int  // in its present world; 0 = it waits
	Pinned      bool // must keep its present world
	// Work is what it has left to do.
	Work Work
	// Alike is, where that is unknown, what would be left if the job took as much as each
	// of the jobs like it that took more than it has done, as Work.Left, ascending; nil = nothing is known of such.
	Alike []time.Duration
	// Trained is how long it has had workers; Service is that times their number (device time attained).
	Trained time.Duration
	Service time.Duration
	// Speeds are throughputs at each of Sizes relative to one device; nil = the
	// default model k·0.8^log2(k) (Hu et al., section 4).
	Speeds []float64
	// Batches are the batch sizes with which it comes furthest at each of Sizes, which
	// Speeds count; nil = the smallest that each can share.
	Batches []int
	// Staying is its speed in its present world, where that has another batch than Batches say; else 0.
	Staying float64
	// Fastest is how it does the most samples in a second where its batch ranges; nil = nothing
	// was measured, or it has one batch.
	Fastest *Fastest
	// Loss is where in its training it is by the losses that it tells; nil = unknown.
	Loss *Loss
	// StartCosts are what a start at each of Sizes costs, in time without training; nil = DefaultStartCost.
	StartCosts []time.Duration
	// Careful are Speeds as they are in 19 of 20 cases at least, for promises; nil = Speeds.
	Careful []float64
	// Booting is what is left of its last start until it trains, as far as that can be told.
	Booting time.Duration
	// Promise is what it was promised for its deadline; nil = nothing.
	Promise *Promise
	// Present is the allocation in force; zero if it waits.
	Present cluster.Allocation
	// Excluded nodes cannot run the job.
	Excluded []cluster.NodeID
	// Models are the device models on which it may run, and how it does there; nil = all, and
	// all alike. Run has read them for a policy, which is asked about devices of one model alone.
	Models []OnModel
	// Mixed: its devices may be of several models at once.
	Mixed bool
}

// OnModel is how a job does on devices of one model.
type OnModel struct {
	Model string
	// Rate is what one of these devices does of Work in the time in which one device that
	// Work counts does 1; 0 = unknown, taken for 1.
	Rate float64
	// The others are as in JobView, relative to one of these devices.
	Speeds, Careful []float64
	Batches         []int
	Staying         float64
	Fastest         *Fastest
	// Preferred: its owner would rather have these.
	Preferred bool
}

// RateOn is how fast one device of a model is for the job, as its Work is counted.
func (j JobView) RateOn(model string) float64 {
	for _, m := range j.Models {
		if m.Model == model && m.Rate > 0 {
			return m.Rate
		}
	}
	return 1
}

// On is the job as it does on devices of a model, all relative to one of them.
func (j JobView) On(model string) JobView {
	i := slices.IndexFunc(j.Models, func(m OnModel) bool { return m.Model == model })
	if i < 0 {
		return j
	}
	m, rate := j.Models[i], j.RateOn(model)
	j.Models = nil
	j.Speeds, j.Careful, j.Batches, j.Staying, j.Fastest = m.Speeds, m.Careful, m.Batches, m.Staying, m.Fastest
	if rate != 1 {
		j.Work.Left = slower(j.Work.Left, rate)
		j.Alike = slices.Clone(j.Alike)
		for k := range j.Alike {
			j.Alike[k] = slower(j.Alike[k], rate)
		}
	}
	return j
}

// slower is a time on one device as time on one that is so many times as fast.
func slower(d time.Duration, rate float64) time.Duration {
	return time.Duration(min(float64(d)/rate, math.MaxInt64/2))
}

// Fastest is how a job whose batch ranges does the most samples in a second, whatever a step at
// each batch is worth: as its owner allows all of the range, any of it trains the model as well.
type Fastest struct {
	// Speeds are samples per second at each of Sizes with the batch of Batches beside it,
	// relative to the most that one device does.
	Speeds  []float64
	Batches []int
	// Staying is that of its present world, where that has another batch; else 0.
	Staying float64
}

// Loss is where in its training a job is.
type Loss struct {
	// Fall is by which part of all of its fall so far the loss falls in 100 steps: near 1 for a
	// young job, near 0 for one that converges.
	Fall float64
	// Flat is why more steps gain nothing, by the loss; empty = they do, or that is not known.
	Flat string
}

// Promise is how many devices a job was promised, from the running slot of time on.
// All promises of a question have the same slots.
type Promise struct {
	// Due is when the job's end is planned at the latest.
	Due     time.Time
	Profile cluster.Profile
	// First is what is left of the running slot, and Slot the length of each later one.
	First, Slot time.Duration
}

// Now is how many devices the job was promised in the running slot; 0 = none.
func (p *Promise) Now() int {
	if p == nil {
		return 0
	}
	return p.Profile.At(0)
}

// Work is what a job has left to do. The zero value is work that nothing is known
// of, which is not the same as nothing left.
type Work struct {
	Known bool
	// Left is the time that it takes on one device, as Speeds count it; never negative, and 0 unless Known.
	Left time.Duration
}

// Left returns known work: what is left as time on one device; less than nothing counts as nothing.
func Left(d time.Duration) Work { return Work{Known: true, Left: max(0, d)} }

// Done reports whether it is known that nothing is left.
func (w Work) Done() bool { return w.Known && w.Left <= 0 }

// DefaultStartCost is what a start is taken to cost where nothing was measured:
// the 30 s that Pollux's simulator charges (Qiao et al., OSDI 2021, section 5.3).
const DefaultStartCost = 30 * time.Second

// StartCost is the time without training that a start with k workers costs.
func (j JobView) StartCost(k int) time.Duration {
	if i := slices.Index(j.Sizes, k); i >= 0 && i < len(j.StartCosts) && j.StartCosts[i] >= 0 {
		return j.StartCosts[i]
	}
	return DefaultStartCost
}

// BatchFor is the batch with which it makes the most of k workers, of those that its owner allows.
func (j JobView) BatchFor(k int) int {
	if i := slices.Index(j.Sizes, k); i >= 0 && i < len(j.Batches) && j.Batches[i] > 0 {
		return j.Batches[i]
	}
	return cmp.Or(j.BatchSize.On(k), j.BatchSize.Min)
}

// sameBatch is the batch in force, where it may stay; else 0.
func (j JobView) sameBatch() int {
	b := j.Present.BatchSize
	if j.Workers < 1 || b < j.BatchSize.Min || b > j.BatchSize.Max || !j.BatchSize.Shares(b, j.Workers) {
		return 0
	}
	return b
}

// Finishing reports whether the job runs with nothing left to do: it only has to
// end, and any change of its workers would be a start for nothing.
func (j JobView) Finishing() bool { return j.Workers > 0 && j.Work.Done() }

// Output is a policy's answer: one Decision for each job of the Input, in any order.
type Output struct {
	Decisions []Decision
	Value     float64 // of the policy's own objective, 0 if it has none
	Bound     float64 // a certified upper bound of the objective, 0 if none
	Memory    []byte
}

// Decision is how many workers one job gets.
type Decision struct {
	Job       cluster.JobID
	Workers   int // 0 = wait, else one of the job's Sizes
	BatchSize int // samples per global step; 0 = that in force where Workers stay as they are, else JobView.BatchFor
	// Model is that of all of its devices; empty where there is one alone, or they may be of several.
	Model string
	// Node is the one on which all of its devices have to be; empty = any that can run it. See ADR 55.
	Node cluster.NodeID
	// Reason says in a few words why, for `bellows show`; may be empty where nothing changes.
	Reason string
}

// Closed are the nodes on which the job may have no devices, where those of excluded
// cannot run it: all but Node, if that is named.
func (d Decision) Closed(nodes []cluster.Node, excluded []cluster.NodeID) []cluster.NodeID {
	if d.Node == "" {
		return excluded
	}
	closed := slices.Clone(excluded)
	for _, n := range nodes {
		if n.ID != d.Node && !slices.Contains(excluded, n.ID) {
			closed = append(closed, n.ID)
		}
	}
	return closed
}
