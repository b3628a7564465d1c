package host

import (
	"context"
	"errors"
	"time"

	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/record"
)

// relistEvery is how often a part is listed anew although its watch goes on: a
// watch that was silently cut short must not stay so.
const relistEvery = 30 * time.Second

// follower keeps one part of the records up to date.
type follower struct {
	part     string
	prefixes []string
	cancel   context.CancelFunc
}

// startFollowing lists and watches a part until it is stopped.
func (gs *goals) startFollowing(part string, prefixes []string) {
	ctx, cancel := context.WithCancel(gs.Context())
	f := &follower{part: part, prefixes: prefixes, cancel: cancel}
	gs.followers[part] = f
	gs.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			err := gs.followOnce(ctx, f)
			if ctx.Err() != nil {
				return
			}
			if !errors.Is(err, record.ErrCompacted) {
				gs.Log.Warn().Err(err).Str("part", part).Msg("the watch of the records ended; listing again")
				loop.Rest(ctx, loop.RetryFirst)
			}
		}
	})
}

// stopFollowing ends a follower. Its events that are still queued are dropped.
func (gs *goals) stopFollowing(part string) {
	f := gs.followers[part]
	f.cancel()
	delete(gs.followers, part)
	gs.records.forget(part, f.prefixes)
}

// followOnce lists and watches until the watch ends.
func (gs *goals) followOnce(ctx context.Context, f *follower) error {
	var revision int64
	list := func() error {
		return loop.Persist(ctx, gs.Log, "list "+f.part, func() (bool, error) {
			kvs, at, err := gs.store.Range(ctx, f.prefixes...)
			if err != nil {
				return false, err
			}
			revision = at
			gs.Post(func() {
				if gs.followers[f.part] == f {
					gs.records.list(f.part, f.prefixes, kvs, at)
				}
			})
			return false, nil
		})
	}
	if err := list(); err != nil {
		return err
	}
	w := gs.store.Watch(ctx, revision+1, f.prefixes...)
	defer w.Close() //nolint:errcheck // its end is reported by Err below, or was ours
	again := time.NewTicker(relistEvery)
	defer again.Stop()
	for {
		select {
		case batch, ok := <-w.C:
			if !ok {
				return w.Err()
			}
			// What a later listing has shown already is not shown again: the
			// listing may have been without it.
			seen := revision
			gs.Post(func() {
				if gs.followers[f.part] != f {
					return
				}
				for _, c := range batch.Changes {
					if c.ModRevision > seen {
						gs.records.change(c)
					}
				}
				gs.records.seen(f.part, batch.Revision)
			})
		case <-again.C:
			if err := list(); err != nil {
				return err
			}
		}
	}
}
