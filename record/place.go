package record

import "github.com/bellows-ml/bellows/cluster"

// Kind is what a key holds.
type Kind uint8

// The kinds of keys, first those of the cluster, then those below a node, then those below a job.
const (
	KindUnknown Kind = iota // written by another version, or by hand
	KindMeta
	KindLeader
	KindDecision
	KindGranted
	KindPromised
	KindPaused
	KindLimits
	KindEvent // of a leader
	KindJobKind

	KindAlive
	KindInventory
	KindFencing
	KindCordon
	KindProgress
	KindAsked
	KindNodeEvent
	KindGrant
	KindNext
	KindReady
	KindRequest
	KindAck
	KindSaved
	KindOffer

	KindSpec
	KindWanted
	KindState
	KindPlan
	KindPermit
	KindHalt
	KindFence
	KindRescale
	KindSpeed
	KindCommitted
	KindCheckpoint
	KindBadCheckpoint
)

// Place is what a key, or a change of its record, is about. Fields that the kind
// does not have are zero.
type Place struct {
	Kind       Kind
	Node       cluster.NodeID
	Job        cluster.JobID
	Generation cluster.Generation
	Step       int64
	Slot       uint64 // of a ring of events
	Name       string // of a request, an acknowledgement or a kind of jobs
	UID        uint32 // whose kind of jobs
}

// JobGen names one generation of one job.
type JobGen struct {
	Job        cluster.JobID
	Generation cluster.Generation
}

// subtree says whose part of the records a place lies in.
type subtree struct {
	node cluster.NodeID
	job  cluster.JobID
}

// subtree returns the node or job below which the key lies. A node's records
// about a job lie below the node.
func (p Place) subtree() subtree {
	if p.Node != "" && p.Kind != KindFence {
		return subtree{node: p.Node}
	}
	return subtree{job: p.Job}
}

// jobGen is the generation that a place is about.
func (p Place) jobGen() JobGen { return JobGen{p.Job, p.Generation} }
