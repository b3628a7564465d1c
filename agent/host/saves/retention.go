package saves

import (
	"cmp"
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/record"
)

const retainLane agent.Lane = "retain"

// deleteSurplus deletes the checkpoints that no start will resume from any more,
// each time that something new was committed: jobs that save often must not fill
// the disk. What could not be deleted is tried again with the next commit.
func (sv *Saves) deleteSurplus(r *Run, g Generation) {
	at := loop.Lane{Of: g.Of, What: retainLane}
	want, ok := sv.kept(g)
	ran := g.Report != nil && len(g.Report.Workers) > 0
	if !ok || !ran || sv.Busy(at) || reflect.DeepEqual(want, r.retained) {
		return
	}
	r.retained = want
	in := g.folder()
	sv.Beside(at, func(ctx context.Context) func() {
		sv.clean(ctx, in, want)
		return func() {}
	})
}

// kept says what to keep of a job that has rank 0 here: what it resumed from,
// and all that is named in the records, be it as committed or as given up, for
// that can be resumed from as well. So a record goes before its files do. False
// while that is not known for sure.
func (sv *Saves) kept(g Generation) (checkpoint.Retain, bool) {
	last := g.Job.Committed.Value
	known := g.Listed && g.Job.Committed.Exists() && len(g.Job.Checkpoints) > 0
	if !known || !sv.leads(g) || last.Generation > g.Of.Generation {
		return checkpoint.Retain{}, false
	}
	kept := []record.Checkpoint{last}
	for _, c := range g.Job.Checkpoints {
		kept = append(kept, c.Value)
	}
	for _, b := range g.Job.Bad {
		kept = append(kept, b.Value.Checkpoint)
	}
	if g.Order.Resume != nil {
		kept = append(kept, *g.Order.Resume)
	}
	want := checkpoint.Retain{Running: g.Of.Generation, Own: filepath.Base(g.Order.Checkpoint), Below: -1}
	if last.Generation == g.Of.Generation {
		want.Below = last.Step
	}
	for _, c := range kept {
		dir, err := g.folder().below(c.Dir)
		if err != nil {
			return checkpoint.Retain{}, false // something is not as it should be: delete nothing
		}
		want.Keep = append(want.Keep, dir)
	}
	slices.Sort(want.Keep)
	want.Keep = slices.Compact(want.Keep)
	return want, true
}

const roomLane agent.Lane = "room"

// shortage says why the next checkpoint may not fit where a run saves; "" if it
// does. A file system that cannot be asked is none that is known to be full.
func (sv *Saves) shortage(ctx context.Context, in Folder, lastBytes int64) string {
	answer, err := sv.Tasks.Do(ctx, in, dirblob.Task{Root: in.Root(), Room: true}, lookBound)
	if err != nil || answer.Room == nil {
		if ctx.Err() == nil {
			log := sv.Logger(in.Of)
			log.Warn().Err(err).Msg("cannot ask how much room there is for checkpoints")
		}
		return ""
	}
	return answer.Room.Shortage(in.Root(), lastBytes)
}

// preflight looks, on rank 0's node and before anything starts, whether the
// generation will have room to save: one that has not would lose what it
// computes. What earlier generations have left, and no start will resume from, goes
// first. again: the records that say what that is are not listed yet.
func (sv *Saves) preflight(ctx context.Context, in Folder, keep checkpoint.Retain, listed bool) (failed *record.Failed, again bool) {
	last := in.Resume.Bytes
	short := sv.shortage(ctx, in, last)
	if short == "" {
		return nil, false
	}
	if !listed {
		return nil, loop.Rest(ctx, loop.RetryFirst)
	}
	sv.clean(ctx, in, keep)
	if short = sv.shortage(ctx, in, last); short == "" {
		return nil, false
	}
	return &record.Failed{
		Kind: record.NoSpace, Rank: -1, At: time.Now(),
		Reason: short + "; the job starts again by itself",
	}, false
}

// clean deletes what is surplus.
func (sv *Saves) clean(ctx context.Context, in Folder, keep checkpoint.Retain) {
	log := sv.Logger(in.Of)
	answer, err := sv.Tasks.Do(ctx, in, dirblob.Task{Root: in.Root(), Retain: &keep}, taskBound)
	if len(answer.Deleted) > 0 {
		log.Info().Strs("dirs", answer.Deleted).Msg("deleted old checkpoints")
	}
	if err != nil {
		log.Error().Err(err).Msg("cannot delete old checkpoints yet")
	}
}

// watchRoom looks now and then, and after each checkpoint at once, whether the
// next one will fit. A job that runs goes on in any case; people learn of it while
// they can still do something.
func (sv *Saves) watchRoom(r *Run, g Generation) {
	at := loop.Lane{Of: g.Of, What: roomLane}
	last := r.lastBytes(g)
	if sv.Busy(at) || last == 0 || !g.Live || g.Report == nil || g.Report.Stopped != nil || !sv.leads(g) || time.Since(r.asked) < sv.cfg.LookEvery {
		return
	}
	r.asked = time.Now()
	in := g.folder()
	sv.Beside(at, func(ctx context.Context) func() {
		short := sv.shortage(ctx, in, last)
		return func() { r.Short = short }
	})
}

// lastBytes is how large the job's newest checkpoint is; 0 = it has none.
func (r *Run) lastBytes(g Generation) int64 {
	last := g.Job.Committed.Value.Bytes
	if g.Order.Resume != nil {
		last = cmp.Or(last, g.Order.Resume.Bytes)
	}
	newest := int64(-1)
	for step, work := range r.Merges {
		if work.Done && work.Err == "" && step > newest {
			newest, last = step, work.Value.Bytes
		}
	}
	return last
}
