package record

import (
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

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

// Locate reads a key. The place of one that this version does not know is of
// KindUnknown, and still names the node or job below which the key lies.
func Locate(key string) Place {
	at, _ := locate(key)
	return at
}

// locate reads a key, and finds its row; nil if there is none.
func locate(key string) (Place, *Row) {
	rest, below := strings.CutPrefix(key, Root)
	parts := strings.Split(rest, "/")
	if !below || slices.Contains(parts, "") { // no node, job or request is called so: its view would be that of none
		return Place{}, nil
	}
	at, p := keyTree, Place{}
	for _, part := range parts {
		switch word := at.words[part]; {
		case word != nil:
			at = word
		case at.any != nil && p.take(at.what, part):
			at = at.any
		default:
			return unknown(parts), nil
		}
	}
	if at.row == nil {
		return unknown(parts), nil
	}
	p.Kind = at.row.Kind
	switch p.Kind { //nolint:exhaustive // the others have no name, or it varies
	case KindLeader:
		p.Name = key
	case KindAck:
		p.Name = parts[len(parts)-1]
	}
	return p, at.row
}

// unknown is the place of a key that this version does not know.
func unknown(parts []string) Place {
	switch {
	case len(parts) < 3:
	case parts[0] == "nodes":
		return Place{Node: cluster.NodeID(parts[1])}
	case parts[0] == "jobs":
		return Place{Job: cluster.JobID(parts[1])}
	}
	return Place{}
}
