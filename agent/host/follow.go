package host

import (
	"context"
	"errors"
	"maps"
	"slices"
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

// following keeps the records up to date, each part by a listing and a watch of its
// own. The loop owns it.
type following struct {
	*shared
	parts map[string]*follower
}

func newFollowing(sh *shared) *following {
	return &following{shared: sh, parts: map[string]*follower{}}
}

// only follows these parts, by their names and prefixes, and no others.
func (fg *following) only(wanted map[string][]string) {
	for part := range fg.parts {
		if wanted[part] == nil {
			fg.stop(part)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(wanted)) {
		if fg.parts[part] == nil {
			fg.start(part, wanted[part])
		}
	}
}

// start lists and watches a part until it is stopped.
func (fg *following) start(part string, prefixes []string) {
	ctx, cancel := context.WithCancel(fg.Context())
	f := &follower{part: part, prefixes: prefixes, cancel: cancel}
	fg.parts[part] = f
	fg.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			err := fg.once(ctx, f)
			if ctx.Err() != nil {
				return
			}
			if !errors.Is(err, record.ErrCompacted) {
				fg.Log.Warn().Err(err).Str("part", part).Msg("the watch of the records ended; listing again")
				loop.Rest(ctx, loop.RetryFirst)
			}
		}
	})
}

// stop ends a follower. Its events that are still queued are dropped.
func (fg *following) stop(part string) {
	f := fg.parts[part]
	f.cancel()
	delete(fg.parts, part)
	fg.records.forget(part, f.prefixes)
}

// once lists and watches until the watch ends.
func (fg *following) once(ctx context.Context, f *follower) error {
	var revision int64
	list := func() error {
		return loop.Persist(ctx, fg.Log, "list "+f.part, func() (bool, error) {
			kvs, at, err := fg.store.Range(ctx, f.prefixes...)
			if err != nil {
				return false, err
			}
			revision = at
			fg.Post(func() {
				if fg.parts[f.part] == f {
					fg.records.list(f.part, f.prefixes, kvs, at)
				}
			})
			return false, nil
		})
	}
	if err := list(); err != nil {
		return err
	}
	w := fg.store.Watch(ctx, revision+1, f.prefixes...)
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
			fg.Post(func() {
				if fg.parts[f.part] != f {
					return
				}
				for _, c := range batch.Changes {
					if c.ModRevision > seen {
						fg.records.change(c)
					}
				}
				fg.records.seen(f.part, batch.Revision)
			})
		case <-again.C:
			if err := list(); err != nil {
				return err
			}
		}
	}
}
