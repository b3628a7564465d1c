package host

import (
	"context"
	"errors"
	"time"

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
func (n *node) startFollowing(part string, prefixes []string) {
	ctx, cancel := context.WithCancel(n.ctx)
	f := &follower{part: part, prefixes: prefixes, cancel: cancel}
	n.followers[part] = f
	n.wg.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			err := n.followOnce(ctx, f)
			if ctx.Err() != nil {
				return
			}
			if !errors.Is(err, record.ErrCompacted) {
				n.log.Warn().Err(err).Str("part", part).Msg("the watch of the records ended; listing again")
				rest(ctx, retryFirst)
			}
		}
	})
}

// stopFollowing ends a follower. Its events that are still queued are dropped.
func (n *node) stopFollowing(part string) {
	f := n.followers[part]
	f.cancel()
	delete(n.followers, part)
	n.records.forget(part, f.prefixes)
}

// followOnce lists and watches until the watch ends.
func (n *node) followOnce(ctx context.Context, f *follower) error {
	var revision int64
	list := func() error {
		return persist(ctx, n.log, "list "+f.part, func() (bool, error) {
			kvs, at, err := n.store.Range(ctx, f.prefixes...)
			if err != nil {
				return false, err
			}
			revision = at
			n.post(func() {
				if n.followers[f.part] == f {
					n.records.list(f.part, f.prefixes, kvs, at)
				}
			})
			return false, nil
		})
	}
	if err := list(); err != nil {
		return err
	}
	w := n.store.Watch(ctx, revision+1, f.prefixes...)
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
			n.post(func() {
				if n.followers[f.part] != f {
					return
				}
				for _, c := range batch.Changes {
					if c.ModRevision > seen {
						n.records.change(c)
					}
				}
				n.records.seen(f.part, batch.Revision)
			})
		case <-again.C:
			if err := list(); err != nil {
				return err
			}
		}
	}
}
