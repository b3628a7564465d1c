package lead

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// Config is what a candidate needs.
type Config struct {
	Store  *store.Store
	Policy allocator.Policy
	// Interval is the time between two decisions that may move running jobs; 0 = DefaultInterval.
	Interval time.Duration
	Timing   coordinator.Timing // zero = coordinator.DefaultTiming
	Node     string             // where this candidate runs, for people
	Log      zerolog.Logger
}

// DefaultInterval is long enough for a job to earn back what being rescaled costs it.
const DefaultInterval = time.Minute

// resignWithin bounds the last call of a term. The key goes with its lease anyway.
const resignWithin = 2 * time.Second

// Run campaigns and leads, term after term, until ctx ends, and then resigns
// and returns nil. It returns an error only if etcd refuses this candidate for good.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Timing == (coordinator.Timing{}) {
		cfg.Timing = coordinator.DefaultTiming()
	}
	for {
		leadership, err := cfg.Store.Campaign(ctx, record.Leader{Node: cfg.Node, Incarnation: rand.Text(), Since: time.Now().UTC()})
		if ctx.Err() != nil {
			return resignLate(ctx, leadership)
		}
		if err != nil {
			return fmt.Errorf("lead: %w", err)
		}
		cfg.Log.Info().Str("key", leadership.Key).Str("policy", cfg.Policy.Name()).Msg("leading")
		newTerm(cfg, leadership).run(ctx)
		if err := resign(ctx, leadership); err != nil {
			cfg.Log.Warn().Err(err).Msg("term ended")
		}
		if ctx.Err() != nil {
			return nil
		}
		cfg.Log.Warn().Msg("leadership lost, campaigning again")
	}
}

// resignLate gives back a leadership that was won as ctx ended.
func resignLate(ctx context.Context, l *store.Leadership) error {
	if l == nil {
		return nil
	}
	return resign(ctx, l)
}

func resign(ctx context.Context, l *store.Leadership) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignWithin)
	defer cancel()
	return l.Resign(ctx)
}
