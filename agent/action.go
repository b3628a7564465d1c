package agent

import (
	"fmt"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// Action is one thing to do; the set is closed. Of two actions with the same
// Of and Lane only one may be under way: acknowledgements follow each other,
// and what touches the run directory does.
type Action interface {
	Of() record.JobGen
	Lane() Lane
	fmt.Stringer
}

// Lane says what an action touches.
type Lane string

// The lanes.
const (
	RunLane    Lane = "run"    // the run directory and its shim's birth and death
	WishLane   Lane = "wish"   // the connection to the shim
	AckLane    Lane = "ack"    // acknowledgements, in their order
	DigestLane Lane = "digest" // reading the ranks' files
	MergeLane  Lane = "merge"  // writing the manifest
	RecordLane Lane = "record" // records of saves and offers
)

// target is the generation that an action is about.
type target struct{ record.JobGen }

// Of names the generation that the action is about.
func (t target) Of() record.JobGen { return t.JobGen }

// Verify reads the checkpoint that the plan resumes from, before anything starts.
type Verify struct {
	target
	Spec record.Submitted
	Plan record.Plan
	// Whole: every file is read. Otherwise only whether all of it is visible
	// here is looked at: one node reads it for all.
	Whole bool
}

// StartShim starts the generation's shim, which starts its workers.
type StartShim struct {
	target
	Spec record.Submitted
	Plan record.Plan
}

// PrepareShim starts the shim of a generation that has no plan yet: it makes ready what
// the workers will be forked from, and waits.
type PrepareShim struct {
	target
	Spec record.Submitted
	Next record.Next
}

// BindRun gives a prepared run its plan, durable. What begins the workers is a Push with
// Start, which follows when this shows.
type BindRun struct {
	target
	Spec record.Submitted
	Plan record.Plan
}

// WriteReady records how far a preparation is; of a nil Ready that nothing is prepared any more.
type WriteReady struct {
	target
	Ready *record.Ready
}

// Push tells a live shim all that is wanted of it.
type Push struct {
	target
	Wish run.Wish
}

// WriteAck creates one acknowledgement: a record.Started, Held, Failed or Stopped, as Ack says.
type WriteAck struct {
	target
	Ack   record.Ack
	Value any
}

// Digest makes the files of a checkpoint durable and lists them.
type Digest struct {
	target
	Step    int64
	Samples int64
	Dir     string // the checkpoint's directory, absolute
	Ranks   []int  // whose files; of a plain checkpoint all ranks of the world
	Plain   bool   // list everything below Dir, not the ranks' own directories
}

// WriteSaved records what a Digest has listed.
type WriteSaved struct {
	target
	Step  int64
	Saved record.Saved
	Drop  []int64 // older steps, whose records are not needed any more
}

// Merge writes the manifest of a step that all ranks have saved.
type Merge struct {
	target
	Step      int64
	WorldSize int
	Parts     []record.Saved // in the members' order
}

// WriteOffer offers a merged checkpoint to the leader.
type WriteOffer struct {
	target
	Step  int64
	Offer record.Offer
	Drop  []int64 // as of WriteSaved
}

// Sweep kills whatever a dead shim has left and waits until it is gone.
type Sweep struct{ target }

// RemoveRun deletes the run directory of a shim that is gone.
type RemoveRun struct{ target }

// Forget deletes this node's own records of a generation that the leader has collected.
type Forget struct{ target }

// Lane says what the action touches.
func (Verify) Lane() Lane { return RunLane }

// Lane says what the action touches.
func (StartShim) Lane() Lane { return RunLane }

// Lane says what the action touches.
func (PrepareShim) Lane() Lane { return RunLane }

// Lane says what the action touches.
func (BindRun) Lane() Lane { return RunLane }

// Lane says what the action touches.
func (WriteReady) Lane() Lane { return AckLane }

// Lane says what the action touches.
func (Push) Lane() Lane { return WishLane }

// Lane says what the action touches.
func (WriteAck) Lane() Lane { return AckLane }

// Lane says what the action touches.
func (Digest) Lane() Lane { return DigestLane }

// Lane says what the action touches.
func (WriteSaved) Lane() Lane { return RecordLane }

// Lane says what the action touches.
func (Merge) Lane() Lane { return MergeLane }

// Lane says what the action touches.
func (WriteOffer) Lane() Lane { return RecordLane }

// Lane says what the action touches.
func (Sweep) Lane() Lane { return RunLane }

// Lane says what the action touches.
func (RemoveRun) Lane() Lane { return RunLane }

// Lane says what the action touches.
func (Forget) Lane() Lane { return RecordLane }

func (a Verify) String() string {
	return fmt.Sprintf("verify %s step=%d whole=%t", name(a.JobGen), a.Plan.Resume.Step, a.Whole)
}
func (a StartShim) String() string   { return "start " + name(a.JobGen) }
func (a PrepareShim) String() string { return "prepare " + name(a.JobGen) }
func (a BindRun) String() string     { return "bind " + name(a.JobGen) }
func (a WriteReady) String() string {
	switch {
	case a.Ready == nil:
		return "unready " + name(a.JobGen)
	case a.Ready.Cold != "":
		return "ready " + name(a.JobGen) + " cold: " + a.Ready.Cold + a.begun()
	case a.Ready.Begun && a.Ready.Workers == 0:
		return "begun " + name(a.JobGen)
	}
	if a.Ready.Workers > 1 {
		return fmt.Sprintf("ready %s workers=%d", name(a.JobGen), a.Ready.Workers)
	}
	return "ready " + name(a.JobGen)
}
func (a Push) String() string     { return "push " + name(a.JobGen) + " " + a.Wish.String() }
func (a WriteAck) String() string { return "ack " + name(a.JobGen) + " " + string(a.Ack) }
func (a Digest) String() string   { return fmt.Sprintf("digest %s step=%d", name(a.JobGen), a.Step) }

func (a WriteSaved) String() string {
	return fmt.Sprintf("saved %s step=%d%s", name(a.JobGen), a.Step, dropped(a.Drop))
}

func (a Merge) String() string { return fmt.Sprintf("merge %s step=%d", name(a.JobGen), a.Step) }

func (a WriteOffer) String() string {
	return fmt.Sprintf("offer %s step=%d%s", name(a.JobGen), a.Step, dropped(a.Drop))
}
func (a Sweep) String() string     { return "sweep " + name(a.JobGen) }
func (a RemoveRun) String() string { return "remove " + name(a.JobGen) }
func (a Forget) String() string    { return "forget " + name(a.JobGen) }

func dropped(steps []int64) string {
	if len(steps) == 0 {
		return ""
	}
	return fmt.Sprintf(" drop=%v", steps)
}

func name(jg record.JobGen) string { return fmt.Sprintf("%s/%d", jg.Job, jg.Generation) }

// begun says, for stories, that processes may be there although workers will be executed as without.
func (a WriteReady) begun() string {
	if a.Ready.Begun {
		return " (begun)"
	}
	return ""
}
