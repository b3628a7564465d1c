package host

import (
	"context"

	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// shared is what all parts of the agent use. The loop's goroutine alone reads and writes the state of all parts.
type shared struct {
	*loop.Loop

	cfg     Config
	store   *store.Store
	data    *dataDir
	records *records // the loop's
}

func newShared(ctx context.Context, cfg Config, s *store.Store, data *dataDir) *shared {
	return &shared{Loop: loop.New(ctx, cfg.Log), cfg: cfg, store: s, data: data, records: newRecords(cfg.Node, cfg.Log)}
}

// generationOf is a short form for a pair of names.
func generationOf(j cluster.JobID, g cluster.Generation) record.JobGen {
	return record.JobGen{Job: j, Generation: g}
}
