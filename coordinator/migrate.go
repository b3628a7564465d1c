package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// A running job moves to other devices, at the size that it has, where another can be
// placed close together so and that is worth more than the move costs. Which one is found
// by place.Repair; the move itself is a rescale like any other (rescale). See ADR 52.

const (
	// assumedSpanLoss is the share of its speed that a job is taken to lose where it is wider apart
	// than it need be, until both were measured. Of the models that Pollux measured on T4s,
	// three in four lose more with four workers on two nodes instead of one (the quartile is 22 %),
	// and two in three with two workers.
	assumedSpanLoss = 0.1
	// spanFor bounds the time over which that counts: after it the job has another size or other neighbours.
	spanFor = time.Hour
)

// priced adds to a job's count what it costs to move it, and to leave it apart.
func priced(in situation, v allocator.JobView, c place.Count) place.Count {
	if in.cfg.Migrations < 1 {
		return c
	}
	k := c.Workers
	if has := in.has.Workers(); has > 0 && has == k && mayMove(in, v) {
		c.MoveCost = 1 // it has to start again anyway
		if in.state().Phase == cluster.Running {
			c.MoveCost = max(1, float64(k)*v.StartCost(k).Seconds())
		}
	}
	if k < 2 || v.Finishing() {
		return c
	}
	// Others have to save and go first: that is taken to last as long as a start.
	if gain := spanLoss(in, k)*min(left(v, k), spanFor).Seconds() - v.StartCost(k).Seconds(); gain > 0 {
		c.SpanCost = float64(k) * gain
	}
	return c
}

// mayMove reports whether a job may be moved for others: one that has something left to do,
// was promised nothing that a pause would break, and trains, or is halted, perhaps
// for a move that the leader before has decided.
func mayMove(in situation, v allocator.JobView) bool {
	switch {
	case in.state().Pinned || v.Finishing() || v.Promise != nil:
		return false
	case in.state().Phase == cluster.Halting:
		return !in.target.moves // a move that was decided stands
	}
	return in.state().Phase == cluster.Running && v.Booting <= 0 && !in.clock.Before(underWayAt(in))
}

// spanLoss is the share of its speed that a job of k workers loses on several nodes.
func spanLoss(in situation, k int) float64 {
	if loss, ok := known(in).SpanLoss(k); ok {
		return loss
	}
	return assumedSpanLoss
}

// left is how long a job still trains with k workers. Of one of unknown work, as much is
// taken to lie ahead as it has done, an hour of one device at least.
func left(v allocator.JobView, k int) time.Duration {
	speed := goodput.Default(k)
	if i := slices.Index(v.Sizes, k); i >= 0 && i < len(v.Speeds) {
		speed = v.Speeds[i]
	}
	work := v.Work.Left
	if !v.Work.Known {
		work = max(v.Service, time.Hour)
	}
	if !(speed > 0) {
		return 0
	}
	return time.Duration(float64(work) / speed)
}

// mayMigrate is how many jobs may be moved for others now.
func (d *decisions) mayMigrate(in situation) int {
	if !d.migrated.IsZero() && in.clock.Sub(d.migrated) < in.cfg.Interval {
		return 0
	}
	return in.cfg.Migrations
}

// movesWhy says in words where a job moves and what for.
func movesWhy(m place.Move, placed place.Result) string {
	from, to := nodesOf(m.From), nodesOf(m.To)
	where := fmt.Sprintf("from %s to %s", from, to)
	if from == to {
		where = "within " + from
	}
	what := m.For
	if m.For == m.Job {
		what = "it"
	}
	for _, a := range placed.Allocations {
		if a.Job == m.For && len(a.Placements) == 1 && from != to {
			return fmt.Sprintf("%s, so that %s fits on one node", where, what)
		}
	}
	return fmt.Sprintf("%s, so that %s is closer together", where, what)
}

func nodesOf(placements []cluster.Placement) string {
	nodes := make([]cluster.NodeID, len(placements))
	for i, p := range placements {
		nodes[i] = p.Node
	}
	slices.Sort(nodes)
	return someNodes(nodes)
}
