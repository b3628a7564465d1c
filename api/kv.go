package api

import (
	"context"

	"github.com/bellows-ml/bellows/record"
)

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
