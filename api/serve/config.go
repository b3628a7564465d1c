package serve

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/record"
)

const (
	// maxFaults bounds what is said to be wrong with a request, which may be a fault for each of its words.
	maxFaults = 8 << 10
	// commitTimeout bounds how long a request waits for etcd before its caller is told to ask again.
	commitTimeout = 5 * time.Second
	// commitAttempt is after how long it is sent again in that time: what reached
	// an etcd of several members just before its leader died is never answered,
	// though another leads after a second.
	commitAttempt = 1500 * time.Millisecond
	// knownWithin is how long a reply waits for the agent's own watch, which takes
	// milliseconds unless it has to begin anew.
	knownWithin = 2 * time.Second
)

// Config is what a Server needs of its agent.
type Config struct {
	KV      KV
	Watch   WatchFunc
	Node    cluster.NodeID
	LogDir  string // <LogDir>/<job>/g<%08d>/rank-<r>.log
	Version string
	// Identity is what this node shows to others; nil = it talks to those on this machine only.
	Identity *trust.Identity
	// Gossip says what this agent hears of each node: alive, suspect, dead or left. May be nil.
	Gossip func() map[cluster.NodeID]string
	// Readings says what this node's devices were doing when last looked at. It
	// answers at once. May be nil.
	Readings func() api.NodeReadings
	// Silence says for how long etcd has not answered this node; 0 = it does, or
	// never has. Replies say so, for what they show is then the last snapshot. May be nil.
	Silence func() time.Duration
	// Space says how full etcd is. May be nil.
	Space func(context.Context) (record.Space, error)
	// UserName returns the name of a user of this machine; nil = userdb.Name.
	UserName func(ctx context.Context, uid uint32) (string, error)
	Log      zerolog.Logger
}

// KV is what a server needs of the store.
type KV interface {
	// Range lists the keys below the prefixes as of the revision returned.
	Range(ctx context.Context, prefixes ...string) ([]record.KV, int64, error)
	// Commit executes a transaction.
	Commit(ctx context.Context, t record.Txn) record.Outcome
}

// WatchFunc calls apply with the changes below record.Root from a revision on,
// in order, from one goroutine, until the context ends or it cannot go on.
type WatchFunc func(ctx context.Context, from int64, apply func([]record.Change)) error
