package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/record"
)

const roomLane agent.Lane = "room"

// noSpace reports whether an error is that of a full disk, or of a user's full part of it.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// refusal is why something cannot be started here. A full disk passes, and so may what a file system says of itself.
func refusal(err error) *record.Failed {
	return &record.Failed{Kind: shim.FailureOf(err), Reason: err.Error(), Rank: -1, At: time.Now()}
}

// shortage says why the next checkpoint may not fit where a run saves; "" if it
// does. A file system that cannot be asked is none that is known to be full.
func (n *node) shortage(ctx context.Context, r *run, lastBytes int64) string {
	answer, err := n.do(ctx, r, dirblob.Task{Root: r.root(), Room: true}, lookBound)
	if err != nil || answer.Room == nil {
		if ctx.Err() == nil {
			log := n.logger(r.jg)
			log.Warn().Err(err).Msg("cannot ask how much room there is for checkpoints")
		}
		return ""
	}
	return answer.Room.Shortage(r.root(), lastBytes)
}

// preflight looks, on rank 0's node and before anything starts, whether the
// generation will have room to save: one that has not would lose what it
// computes. What earlier generations have left, and nobody will ask for, goes
// first. again: the records that say what that is are not listed yet.
func (n *node) preflight(ctx context.Context, r *run, keep checkpoint.Retain, listed bool) (failed *record.Failed, again bool) {
	last := r.order.Resume.Bytes
	short := n.shortage(ctx, r, last)
	if short == "" {
		return nil, false
	}
	if !listed {
		return nil, rest(ctx, retryFirst)
	}
	n.clean(ctx, r, keep)
	if short = n.shortage(ctx, r, last); short == "" {
		return nil, false
	}
	return &record.Failed{
		Kind: record.NoSpace, Rank: -1, At: time.Now(),
		Reason: short + "; the job starts again by itself",
	}, false
}

// clean deletes what is surplus.
func (n *node) clean(ctx context.Context, r *run, keep checkpoint.Retain) {
	log := n.logger(r.jg)
	answer, err := n.do(ctx, r, dirblob.Task{Root: r.root(), Retain: &keep}, taskBound)
	if len(answer.Deleted) > 0 {
		log.Info().Strs("dirs", answer.Deleted).Msg("deleted old checkpoints")
	}
	if err != nil {
		log.Error().Err(err).Msg("cannot delete old checkpoints yet")
	}
}

// watchRoom looks now and then, and after each checkpoint at once, whether the
// next one will fit. A job that runs goes on in any case; people are told while
// they can still do something.
func (n *node) watchRoom() {
	for jg, r := range n.runs {
		at := lane{jg, roomLane}
		last := n.lastBytes(r)
		if n.lanes[at] || last == 0 || r.shim != agent.Live || r.report == nil || r.report.Stopped != nil || !n.leads(r.order.World) ||
			time.Since(r.roomSeen) < n.cfg.lookEvery {
			continue
		}
		r.roomSeen = time.Now()
		n.beside(at, func(ctx context.Context) func() {
			short := n.shortage(ctx, r, last)
			return func() { r.short = short }
		})
	}
}

// lastBytes is how large the job's newest checkpoint is; 0 = it has none.
func (n *node) lastBytes(r *run) int64 {
	last := n.records.mirror.Job(r.jg.Job).Committed.Value.Bytes
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

// problem is what people should know of a run; "" = nothing.
func (r *run) problem() string {
	var all []string
	for _, p := range []string{r.lost, r.apart(), r.short, r.shared, r.unswept, r.stuck()} {
		if p != "" {
			all = append(all, p)
		}
	}
	if r.report != nil && len(r.report.Leftover) > 0 {
		all = append(all, "its workers left processes behind, which were killed: "+strings.Join(r.report.Leftover, ", "))
	}
	return strings.Join(all, "; ")
}

// lose notes a checkpoint that came to nothing; the next that is whole makes up for it.
func (r *run) lose(step int64, err error) {
	r.lost = fmt.Sprintf("the checkpoint of step %d is lost: %v", step, err)
}
