package host

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const retainLane agent.Lane = "retain"

// savesPart is what a job has committed, followed on rank 0's node.
func savesPart(j cluster.JobID) string { return fmt.Sprintf("checkpoints %s", j) }

// leads reports whether rank 0 of a world is on this node.
func (n *node) leads(w cluster.World) bool {
	return len(w.Members) > 0 && w.Members[0].Node == n.cfg.Node
}

// retain deletes what nobody will resume from any more, each time that
// something new was committed: jobs that save often must not fill the disk.
// What could not be deleted is tried again with the next commit.
func (n *node) retain() {
	for jg, r := range n.runs {
		at := lane{jg, retainLane}
		want, ok := n.kept(r)
		ran := r.report != nil && len(r.report.Workers) > 0
		if !ok || !ran || n.lanes[at] || reflect.DeepEqual(want, r.retained) {
			continue
		}
		r.retained = want
		n.beside(at, func(ctx context.Context) func() {
			n.clean(ctx, r, want)
			return func() {}
		})
	}
}

// kept says what to keep of a job that has rank 0 here: what it resumed from,
// and all that is named in the records, be it as committed or as given up, for
// that can be resumed from as well. So a record goes before its files do. False
// while that is not known for sure.
func (n *node) kept(r *run) (checkpoint.Retain, bool) {
	job := n.records.mirror.Job(r.jg.Job)
	last := job.Committed.Value
	known := n.records.known(savesPart(r.jg.Job)) && job.Committed.Exists() && len(job.Checkpoints) > 0
	if !known || !n.leads(r.order.World) || last.Generation > r.jg.Generation {
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
		dir, err := r.below(c.Dir)
		if err != nil {
			return checkpoint.Retain{}, false // something is not as it should be: delete nothing
		}
		want.Keep = append(want.Keep, dir)
	}
	slices.Sort(want.Keep)
	want.Keep = slices.Compact(want.Keep)
	return want, true
}
