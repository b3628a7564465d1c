package lead

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
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
	// MaxTxnOps is what Store was opened with: operations that etcd takes in one
	// transaction; 0 = record.DefaultMaxTxnOps.
	MaxTxnOps int
	// Migrations is how many running jobs may be moved in an interval so that others are closer together; 0 = none.
	Migrations int
	// KeepCheckpoints is how many committed checkpoints of a job are kept; 0 = coordinator.DefaultKeepCheckpoints.
	KeepCheckpoints int

	// NoNewPrivs is every job's that is admitted, whatever its owner has said.
	NoNewPrivs bool
	// Limits bound what each user may have; nil = nothing does.
	Limits *record.Limits

	// Observer is told what this candidate does; nil = not called.
	Observer Observer
	// Window shows what it sees while it leads; nil = there is none.
	Window *Window

	Node string // where this candidate runs, for people
	Log  zerolog.Logger
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
	if cfg.Observer == nil {
		cfg.Observer = unobserved{}
	}
	for ctx.Err() == nil {
		if err := serve(ctx, cfg); err != nil {
			return fmt.Errorf("lead: %w", err)
		}
	}
	return nil
}

// serve campaigns and leads for one term.
func serve(ctx context.Context, cfg Config) error {
	leadership, err := cfg.Store.Campaign(ctx, record.Leader{Node: cfg.Node, Incarnation: rand.Text(), Since: time.Now().UTC(), Policy: cfg.Policy.Name(), Interval: cluster.Duration(cfg.Interval)})
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop
		}
		return err
	}
	defer resign(ctx, cfg, leadership)
	cfg.Log.Info().Str("key", leadership.Key).Str("policy", cfg.Policy.Name()).Msg("leading")
	cfg.Observer.Leads(true)
	cfg.Window.setOpen(true)
	newTerm(cfg, leadership).run(ctx)
	cfg.Window.setOpen(false)
	cfg.Observer.Leads(false)
	if ctx.Err() == nil {
		cfg.Log.Warn().Msg("leadership lost, campaigning again")
	}
	return nil
}

// resign gives the leadership back. Where that fails, the key goes with its lease.
func resign(ctx context.Context, cfg Config, l *store.Leadership) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignWithin)
	defer cancel()
	if err := l.Resign(ctx); err != nil {
		cfg.Log.Warn().Err(err).Msg("term ended")
	}
}
