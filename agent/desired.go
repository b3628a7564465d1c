package agent

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Desired is what the records say that concerns this node.
type Desired struct {
	Node cluster.NodeID
	// AliveRev is this node's token: the CreateRevision of its alive key. 0 while
	// it has none; then nothing is started and nothing can be written.
	AliveRev int64
	// Deadline is when workers must die unless the lease is renewed before, in
	// nanoseconds of CLOCK_BOOTTIME; 0 if nothing is fenced.
	Deadline int64
	// Strict: another node may take this one's place when its lease is lost, so
	// workers of an earlier life have to go. False in a cluster of one node.
	Strict bool
	// LauncherMemory is how much memory the launchers of this node may have together,
	// in bytes; 0 = any number.
	LauncherMemory int64
	Goals          []Goal // in any order, each generation once
}

// Goal is what the records say of one generation: one that is granted to this
// node, has a run here, or of which this node still keeps records.
type Goal struct {
	Job        cluster.JobID
	Generation cluster.Generation
	// Read: all of the generation's records were read. Until then an absent one means nothing.
	Read bool
	Spec *record.Submitted
	Plan *record.Plan // nil once Read: the leader has collected the generation, or a hand has deleted it
	// Granted: devices of this node are granted to it. Then the leader waits for this
	// node to say that nothing is left, whether the plan names the node or not.
	Granted bool
	// Fresh: this agent already had the node when the generation was planned or, if it has no plan, when Ready was
	// written. So no other agent can have started it here.
	Fresh bool
	// Next asks this node to prepare the generation; nil = it does not.
	Next   *record.Next
	Ready  *record.Ready // this node's own, of the generation; nil = it has not said how far it is
	Permit bool
	Halt   *record.Halt
	Acks   record.Acks            // this node's own
	Saved  map[int64]record.Saved // this node's own, by step
	Offers map[int64]record.Offer // this node's own, by step
	Peers  []Peer                 // the other members, in any order
}

// Peer is another member of a generation, as its records show it.
type Peer struct {
	Node   cluster.NodeID
	Failed *record.Failed
	Gone   bool                   // it has stopped or was fenced: nothing more comes from it
	Saved  map[int64]record.Saved // needed on rank 0's node only
	// Offered is the newest step that it has offered; 0 = none. Rank 0's node alone offers.
	Offered int64
}

// of names the goal's generation.
func (g Goal) of() record.JobGen { return record.JobGen{Job: g.Job, Generation: g.Generation} }

// kept reports whether this node has records of the generation.
func (g Goal) kept() bool {
	return g.Acks.Started.Exists() || g.Acks.Held.Exists() || g.Acks.Failed.Exists() || g.Acks.Stopped.Exists() || g.Acks.Cleared.Exists() ||
		len(g.Saved) > 0 || len(g.Offers) > 0
}

// acked reports whether this node has acknowledged a start or its refusal: then it never starts (again).
func (g Goal) acked() bool {
	return g.Acks.Started.Exists() || g.Acks.Failed.Exists() || g.Acks.Stopped.Exists()
}
