package record

import (
	"slices"
	"strconv"
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

// clusterKeys are the keys that there is one of.
var clusterKeys = map[string]Kind{
	MetaKey: KindMeta, AllocationKey: KindDecision, GrantedKey: KindGranted, PromisedKey: KindPromised, PausedKey: KindPaused, LimitsKey: KindLimits,
}

// nodeKeys and jobKeys are those that there is one of below a node or a job.
var (
	nodeKeys = map[string]Kind{
		"alive": KindAlive, "inventory": KindInventory, "fencing": KindFencing, "cordon": KindCordon, "progress": KindProgress, "asked": KindAsked,
	}
	jobKeys = map[string]Kind{"spec": KindSpec, "wanted": KindWanted, "state": KindState, "speed": KindSpeed}
	genKeys = map[string]Kind{"plan": KindPlan, "permit": KindPermit, "halt": KindHalt}
	ackKeys = map[string]bool{
		string(AckStarted): true, string(AckHeld): true, string(AckFailed): true, string(AckStopped): true, string(AckCleared): true,
	}
)

// Locate reads a key. The place of one that this version does not know is of
// KindUnknown, and still names the node or job below which the key lies.
func Locate(key string) Place {
	if kind, ok := clusterKeys[key]; ok {
		return Place{Kind: kind}
	}
	rest, below := strings.CutPrefix(key, Root)
	parts := strings.Split(rest, "/")
	switch {
	case !below || slices.Contains(parts, ""): // no node, job or request is called so: its view would be that of none
		return Place{}
	case strings.HasPrefix(key, LeaderPrefix):
		return Place{Kind: KindLeader, Name: key}
	case parts[0] == "events" && len(parts) == 2:
		return inSlot(Place{Kind: KindEvent}, parts[1])
	case parts[0] == "kinds" && len(parts) == 3:
		return ofKind(parts[1], parts[2])
	case parts[0] == "nodes" && len(parts) >= 3:
		return belowNode(cluster.NodeID(parts[1]), parts[2:])
	case parts[0] == "jobs" && len(parts) >= 3:
		return belowJob(cluster.JobID(parts[1]), parts[2:])
	}
	return Place{}
}

// Subtree reads a prefix that ends in a slash: one job's records, or those of one
// of its generations. Of any other the place is unknown.
func Subtree(prefix string) Place {
	rest, below := strings.CutPrefix(strings.TrimSuffix(prefix, "/"), JobsPrefix)
	parts := strings.Split(rest, "/")
	switch {
	case !below || !strings.HasSuffix(prefix, "/") || parts[0] == "":
	case len(parts) == 1:
		return Place{Job: cluster.JobID(parts[0])}
	case len(parts) == 3 && parts[1] == "gen":
		if g, ok := parseGen(parts[2]); ok {
			return Place{Job: cluster.JobID(parts[0]), Generation: g}
		}
	}
	return Place{}
}

// ofKind is the place of what a user's jobs of one kind have shown.
func ofKind(uid, name string) Place {
	n, err := strconv.ParseUint(uid, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != uid || cluster.CheckKind(name) != nil {
		return Place{}
	}
	return Place{Kind: KindJobKind, UID: uint32(n), Name: name}
}

func belowNode(id cluster.NodeID, parts []string) Place {
	unknown := Place{Node: id}
	if len(parts) == 1 {
		return Place{Kind: nodeKeys[parts[0]], Node: id}
	}
	if len(parts) == 2 {
		switch parts[0] {
		case "events":
			return inSlot(Place{Kind: KindNodeEvent, Node: id}, parts[1])
		case "grants":
			return Place{Kind: KindGrant, Node: id, Job: cluster.JobID(parts[1])}
		case "next":
			return Place{Kind: KindNext, Node: id, Job: cluster.JobID(parts[1])}
		case "ready":
			return Place{Kind: KindReady, Node: id, Job: cluster.JobID(parts[1])}
		case "submit":
			return Place{Kind: KindRequest, Node: id, Name: parts[1]}
		}
	}
	if len(parts) != 4 {
		return unknown
	}
	g, ok := parseGen(parts[2])
	if !ok {
		return unknown
	}
	p := Place{Node: id, Job: cluster.JobID(parts[1]), Generation: g}
	switch {
	case parts[0] == "ack" && ackKeys[parts[3]]:
		p.Kind, p.Name = KindAck, parts[3]
		return p
	case parts[0] == "saved":
		p.Kind = KindSaved
	case parts[0] == "offer":
		p.Kind = KindOffer
	default:
		return unknown
	}
	return atStep(p, parts[3])
}

func belowJob(id cluster.JobID, parts []string) Place {
	p := Place{Job: id}
	if len(parts) == 1 {
		p.Kind = jobKeys[parts[0]]
		return p
	}
	if parts[0] == "gen" || parts[0] == "rescales" {
		g, ok := parseGen(parts[1])
		if !ok {
			return p
		}
		switch {
		case parts[0] == "rescales" && len(parts) == 2:
			p.Kind = KindRescale
		case parts[0] == "gen" && len(parts) == 3:
			p.Kind = genKeys[parts[2]]
		case parts[0] == "gen" && len(parts) == 4 && parts[2] == "fence":
			p.Kind, p.Node = KindFence, cluster.NodeID(parts[3])
		}
		p.Generation = g
		return p
	}
	if parts[0] != "checkpoint" {
		return p
	}
	switch {
	case len(parts) == 2 && parts[1] == "committed":
		p.Kind = KindCommitted
		return p
	case len(parts) == 3 && parts[1] == "history":
		p.Kind = KindCheckpoint
	case len(parts) == 3 && parts[1] == "bad":
		p.Kind = KindBadCheckpoint
	default:
		return p
	}
	return atStep(p, parts[2])
}

// inSlot adds the slot of an event; where it is none, the place is unknown.
func inSlot(p Place, name string) Place {
	slot, err := strconv.ParseUint(name, 10, 16)
	if p.Slot = slot; err != nil {
		p.Kind, p.Slot = KindUnknown, 0
	}
	return p
}

// atStep adds the step of a checkpoint; where it is none, the place is unknown.
func atStep(p Place, name string) Place {
	step, err := strconv.ParseInt(name, 10, 64)
	if p.Step = step; err != nil {
		p.Kind, p.Step = KindUnknown, 0
	}
	return p
}
