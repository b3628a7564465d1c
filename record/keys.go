package record

import (
	"fmt"
	"strconv"

	"github.com/bellows-ml/bellows/cluster"
)

// Root is the prefix of every key of Bellows.
const Root = "/bellows/"

// Fixed keys and prefixes.
const (
	MetaKey       = Root + "meta"
	LeaderPrefix  = Root + "coordinator/leader/"
	NodesPrefix   = Root + "nodes/"
	JobsPrefix    = Root + "jobs/"
	AllocationKey = Root + "allocation/last"
	GrantedKey    = Root + "allocation/granted"
	PromisedKey   = Root + "allocation/promised"
	PausedKey     = Root + "paused"
	LimitsKey     = Root + "limits"
	EventsPrefix  = Root + "events/"
	KindsPrefix   = Root + "kinds/"
	submitPart    = "/submit/"
)

// NodePrefix is the subtree of one node.
func NodePrefix(n cluster.NodeID) string { return NodesPrefix + string(n) + "/" }

// AliveKey exists, on the agent's lease, while the node is in the cluster.
func AliveKey(n cluster.NodeID) string { return NodePrefix(n) + "alive" }

// InventoryKey holds the node's devices.
func InventoryKey(n cluster.NodeID) string { return NodePrefix(n) + "inventory" }

// FencingKey says of which of its lives the node fences itself.
func FencingKey(n cluster.NodeID) string { return NodePrefix(n) + "fencing" }

// CordonKey exists while the node is to get no new work. Leader-written.
func CordonKey(n cluster.NodeID) string { return NodePrefix(n) + "cordon" }

// ProgressKey holds the node's view of its jobs' progress.
func ProgressKey(n cluster.NodeID) string { return NodePrefix(n) + "progress" }

// NodeEventKey holds an event of the node's own, by its number; of the numbers that share it the newest.
func NodeEventKey(n cluster.NodeID, seq uint64) string {
	return fmt.Sprintf("%s%02d", NodeEventsPrefix(n), seq%KeptNodeEvents)
}

// NodeEventsPrefix is the subtree of the events that the node tells itself.
func NodeEventsPrefix(n cluster.NodeID) string { return NodePrefix(n) + "events/" }

// EventKey holds an event that the leader tells, by its number; of the numbers that share it the newest.
func EventKey(seq uint64) string { return fmt.Sprintf("%s%04d", EventsPrefix, seq%KeptEvents) }

// GrantKey says which devices of the node serve which generation of the job. Leader-written.
func GrantKey(n cluster.NodeID, j cluster.JobID) string { return NodePrefix(n) + "grants/" + string(j) }

// NextKey has the node prepare a job's next generation. Leader-written.
func NextKey(n cluster.NodeID, j cluster.JobID) string { return NodePrefix(n) + "next/" + string(j) }

// ReadyPrefix is the subtree of what a node says of preparations.
func ReadyPrefix(n cluster.NodeID) string { return NodePrefix(n) + "ready/" }

// ReadyKey says how far the node has prepared a job's next generation.
func ReadyKey(n cluster.NodeID, j cluster.JobID) string { return ReadyPrefix(n) + string(j) }

// RequestKey holds a request that waits for the leader.
func RequestKey(n cluster.NodeID, id string) string {
	return NodesPrefix + string(n) + submitPart + id
}

// AskedKey names the last request that the node's agent has written.
func AskedKey(n cluster.NodeID) string { return NodePrefix(n) + "asked" }

// AckPrefix is the subtree of a node's acknowledgements of one generation.
func AckPrefix(n cluster.NodeID, j cluster.JobID, g cluster.Generation) string {
	return NodePrefix(n) + "ack/" + string(j) + "/" + gen(g) + "/"
}

// AckKey is one acknowledgement; each is created once and never changed.
func AckKey(n cluster.NodeID, j cluster.JobID, g cluster.Generation, a Ack) string {
	return AckPrefix(n, j, g) + string(a)
}

// SaidPrefixes are the subtrees of all that a node says of generations.
func SaidPrefixes(n cluster.NodeID) []string {
	return []string{NodePrefix(n) + "ack/", NodePrefix(n) + "saved/", NodePrefix(n) + "offer/"}
}

// SavedPrefix is the subtree of what a node's ranks of one generation saved.
func SavedPrefix(n cluster.NodeID, j cluster.JobID, g cluster.Generation) string {
	return NodePrefix(n) + "saved/" + string(j) + "/" + gen(g) + "/"
}

// SavedKey lists the files that the node's ranks saved at a step.
func SavedKey(n cluster.NodeID, j cluster.JobID, g cluster.Generation, step int64) string {
	return SavedPrefix(n, j, g) + strconv.FormatInt(step, 10)
}

// OfferPrefix is the subtree of a node's offers of one generation.
func OfferPrefix(n cluster.NodeID, j cluster.JobID, g cluster.Generation) string {
	return NodePrefix(n) + "offer/" + string(j) + "/" + gen(g) + "/"
}

// OfferKey is where rank 0's node offers a whole checkpoint, its manifest durable on disk, for the leader to commit.
func OfferKey(n cluster.NodeID, j cluster.JobID, g cluster.Generation, step int64) string {
	return OfferPrefix(n, j, g) + strconv.FormatInt(step, 10)
}

// JobPrefix is the subtree of one job.
func JobPrefix(j cluster.JobID) string { return JobsPrefix + string(j) + "/" }

// SpecKey holds what was submitted, immutable.
func SpecKey(j cluster.JobID) string { return JobPrefix(j) + "spec" }

// WantedKey holds what the owner last asked for.
func WantedKey(j cluster.JobID) string { return JobPrefix(j) + "wanted" }

// StateKey holds THE record of a job; every change of the job compares it.
func StateKey(j cluster.JobID) string { return JobPrefix(j) + "state" }

// GenerationPrefix is the subtree of one generation.
func GenerationPrefix(j cluster.JobID, g cluster.Generation) string {
	return JobPrefix(j) + "gen/" + gen(g) + "/"
}

// PlanKey holds the generation's world, write-once.
func PlanKey(j cluster.JobID, g cluster.Generation) string { return GenerationPrefix(j, g) + "plan" }

// PermitKey exists while the generation may run.
func PermitKey(j cluster.JobID, g cluster.Generation) string {
	return GenerationPrefix(j, g) + "permit"
}

// HaltKey asks the generation to save and stop.
func HaltKey(j cluster.JobID, g cluster.Generation) string { return GenerationPrefix(j, g) + "halt" }

// FenceKey records that a member was given up.
func FenceKey(j cluster.JobID, g cluster.Generation, n cluster.NodeID) string {
	return GenerationPrefix(j, g) + "fence/" + string(n)
}

// CheckpointsPrefix is the subtree of what a job has committed.
func CheckpointsPrefix(j cluster.JobID) string { return JobPrefix(j) + "checkpoint/" }

// CommittedKey names the newest committed checkpoint.
func CommittedKey(j cluster.JobID) string { return JobPrefix(j) + "checkpoint/committed" }

// CheckpointKey keeps a committed checkpoint in the history.
func CheckpointKey(j cluster.JobID, step int64) string {
	return JobPrefix(j) + "checkpoint/history/" + strconv.FormatInt(step, 10)
}

// BadCheckpointKey records a committed checkpoint that did not verify.
func BadCheckpointKey(j cluster.JobID, step int64) string {
	return JobPrefix(j) + "checkpoint/bad/" + strconv.FormatInt(step, 10)
}

// SpeedKey holds what was measured of the job. Leader-written.
func SpeedKey(j cluster.JobID) string { return JobPrefix(j) + "speed" }

// JobKindKey holds what a user's jobs of one kind have shown. Leader-written.
func JobKindKey(uid uint32, kind string) string {
	return KindsPrefix + strconv.FormatUint(uint64(uid), 10) + "/" + kind
}

// RescaleKey keeps how one generation came to be and what it cost.
func RescaleKey(j cluster.JobID, g cluster.Generation) string {
	return JobPrefix(j) + "rescales/" + gen(g)
}

// gen writes a generation so that keys sort in its order.
func gen(g cluster.Generation) string { return fmt.Sprintf("%08d", uint64(g)) }

func parseGen(s string) (cluster.Generation, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return cluster.Generation(n), err == nil && gen(cluster.Generation(n)) == s
}
