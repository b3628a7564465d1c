package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Next asks a node to prepare a job's next generation: to start processes that run the script
// up to where it would look at or change anything outside, and are parked there, without devices and
// without a plan. It promises nothing: the plan may name other nodes, or never come. Deleted, or replaced by that of the generation after, when the
// generation runs or the job gives its devices up.
type Next struct {
	Generation cluster.Generation `json:"generation"`
	// Nonce is that of the world to come, if the plan is written by the leader that wrote
	// this, while it leads. A plan of another has another, and nothing of what was prepared is used.
	Nonce string `json:"nonce,omitempty"`
	// Workers is how many processes of the job the node should have ready; 0 = by a leader that does not say: one.
	Workers int       `json:"workers,omitempty"`
	At      time.Time `json:"at"`
}

// Ready says how far a node has prepared what Next asked for. An agent writes it before it starts
// anything, on condition that Next is as it has read it: once the leader has deleted Next, no such record comes into
// being any more. It is deleted when nothing of the preparation is left on the node, or its generation has started there.
type Ready struct {
	Generation cluster.Generation `json:"generation"`
	Nonce      string             `json:"nonce,omitempty"`
	// Begun: processes of the preparation may exist there, from before the first is started until none is left. Agents
	// that are older than this never say so.
	Begun bool `json:"begun,omitempty"`
	// AliveRev is the life of the node (its alive key's CreateRevision) in which this was said.
	AliveRev int64 `json:"alive_rev,omitempty"`
	// Cold says why workers will be executed there as without a preparation; empty = they go on from where they are parked.
	Cold string `json:"cold,omitempty"`
	// Workers is how many processes are parked there; 0 = none, or by an agent that does not say.
	Workers int `json:"workers,omitempty"`
	// Memory is what waits there takes, in bytes; 0 = unknown.
	Memory int64     `json:"memory,omitempty"`
	At     time.Time `json:"at"`
}

// For reports whether it speaks of the preparation that was asked for.
func (r Ready) For(n Next) bool { return r.Generation == n.Generation && r.Nonce == n.Nonce }

// Of reports whether it says that what was asked for is there, with as many processes, or that
// there will be none. An agent that does not say how many forks as many as are needed.
func (r Ready) Of(n Next) bool {
	return r.For(n) && (r.Cold != "" || r.Workers == 0 && !r.Begun || r.Workers >= max(1, n.Workers))
}

func (r Ready) cut(most int) any {
	r.Cold = Cut(r.Cold, most)
	return r
}
