package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const retainLane agent.Lane = "retain"

// savesPart is what a job has committed, followed on rank 0's node.
func savesPart(j cluster.JobID) string { return fmt.Sprintf("checkpoints %s", j) }

// retention keeps a job's checkpoints few and room for the next one. The loop owns it.
type retention struct {
	*shared
	runs  *runs
	tasks *tasks
}

// deleteSurplus deletes the checkpoints that no start will resume from any more,
// each time that something new was committed: jobs that save often must not fill
// the disk. What could not be deleted is tried again with the next commit.
func (re *retention) deleteSurplus() {
	for jg, r := range re.runs.all {
		at := lane{jg, retainLane}
		want, ok := re.kept(r)
		ran := r.report != nil && len(r.report.Workers) > 0
		if !ok || !ran || re.lanes[at] || reflect.DeepEqual(want, r.retained) {
			continue
		}
		r.retained = want
		in := r.folder()
		re.beside(at, func(ctx context.Context) func() {
			re.clean(ctx, in, want)
			return func() {}
		})
	}
}

// kept says what to keep of a job that has rank 0 here: what it resumed from,
// and all that is named in the records, be it as committed or as given up, for
// that can be resumed from as well. So a record goes before its files do. False
// while that is not known for sure.
func (re *retention) kept(r *hosted) (checkpoint.Retain, bool) {
	job := re.records.mirror.Job(r.jg.Job)
	last := job.Committed.Value
	known := re.records.known(savesPart(r.jg.Job)) && job.Committed.Exists() && len(job.Checkpoints) > 0
	if !known || !re.leads(r.order.World) || last.Generation > r.jg.Generation {
		return checkpoint.Retain{}, false
	}
	kept := []record.Checkpoint{last}
	for _, c := range job.Checkpoints {
		kept = append(kept, c.Value)
	}
	for _, b := range job.Bad {
		kept = append(kept, b.Value.Checkpoint)
	}
	if r.order.Resume != nil {
		kept = append(kept, *r.order.Resume)
	}
	want := checkpoint.Retain{Running: r.jg.Generation, Own: filepath.Base(r.order.Checkpoint), Below: -1}
	if last.Generation == r.jg.Generation {
		want.Below = last.Step
	}
	for _, c := range kept {
		dir, err := r.folder().below(c.Dir)
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

// noSpace reports whether an error is that of a full disk, or of a user's full part of it.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// shortage says why the next checkpoint may not fit where a run saves; "" if it
// does. A file system that cannot be asked is none that is known to be full.
func (re *retention) shortage(ctx context.Context, in folder, lastBytes int64) string {
	answer, err := re.tasks.do(ctx, in, dirblob.Task{Root: in.root(), Room: true}, lookBound)
	if err != nil || answer.Room == nil {
		if ctx.Err() == nil {
			log := re.logger(in.jg)
			log.Warn().Err(err).Msg("cannot ask how much room there is for checkpoints")
		}
		return ""
	}
	return answer.Room.Shortage(in.root(), lastBytes)
}

// preflight looks, on rank 0's node and before anything starts, whether the
// generation will have room to save: one that has not would lose what it
// computes. What earlier generations have left, and no start will resume from, goes
// first. again: the records that say what that is are not listed yet.
func (re *retention) preflight(ctx context.Context, in folder, keep checkpoint.Retain, listed bool) (failed *record.Failed, again bool) {
	last := in.resume.Bytes
	short := re.shortage(ctx, in, last)
	if short == "" {
		return nil, false
	}
	if !listed {
		return nil, rest(ctx, retryFirst)
	}
	re.clean(ctx, in, keep)
	if short = re.shortage(ctx, in, last); short == "" {
		return nil, false
	}
	return &record.Failed{
		Kind: record.NoSpace, Rank: -1, At: time.Now(),
		Reason: short + "; the job starts again by itself",
	}, false
}

// clean deletes what is surplus.
func (re *retention) clean(ctx context.Context, in folder, keep checkpoint.Retain) {
	log := re.logger(in.jg)
	answer, err := re.tasks.do(ctx, in, dirblob.Task{Root: in.root(), Retain: &keep}, taskBound)
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
func (re *retention) watchRoom() {
	for jg, r := range re.runs.all {
		at := lane{jg, roomLane}
		last := re.lastBytes(r)
		if re.lanes[at] || last == 0 || r.shim != agent.Live || r.report == nil || r.report.Stopped != nil || !re.leads(r.order.World) ||
			time.Since(r.room.looked) < re.cfg.lookEvery {
			continue
		}
		r.room.looked = time.Now()
		in := r.folder()
		re.beside(at, func(ctx context.Context) func() {
			short := re.shortage(ctx, in, last)
			return func() { r.room.short = short }
		})
	}
}

// lastBytes is how large the job's newest checkpoint is; 0 = it has none.
func (re *retention) lastBytes(r *hosted) int64 {
	last := re.records.mirror.Job(r.jg.Job).Committed.Value.Bytes
	if r.order.Resume != nil {
		last = cmp.Or(last, r.order.Resume.Bytes)
	}
	newest := int64(-1)
	for step, work := range r.merges {
		if work.Done && work.Err == "" && step > newest {
			newest, last = step, work.Value.Bytes
		}
	}
	return last
}
