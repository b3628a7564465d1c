package coordinator

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// explain keeps what a waiting job's owner can read up to date: why it waits.
// It writes only when that has changed.
func explain(in situation) *move {
	why, known := pending(in)
	why = bounded(in, why)
	if old := in.State.Value; !known || old.Phase == cluster.Queued && old.Reason.Equal(why) {
		return nil
	}
	s := next(in, cluster.Queued, why)
	// What it waits for first is news to its owner; how that changes is shown, and not told.
	if old := in.state().Reason; why.Has(reason.Undecided) || !old.Has(reason.Accepted) && !old.Has(reason.Undecided) {
		return recordPhase(in, "wait", s)
	}
	return &move{verb: "wait", job: in.JobView, then: []record.Op{record.Put(record.StateKey(in.ID), s)}, event: record.Event{
		Kind: record.JobQueued, Job: in.ID, Generation: in.number(), Why: why,
	}}
}

// pending says why a queued job does not run; false while nothing is known yet.
func pending(in situation) (reason.Reason, bool) {
	if in.paused().Exists() {
		return pausedWhy(in), true
	}
	if len(in.live()) == 0 {
		return reason.Of(reason.New(reason.NoNodeAlive)), true
	}
	total, usable := devicesFor(in)
	sizes := in.sizes
	if len(sizes) == 0 {
		return reason.Of(reason.New(reason.NoSizeFits)), true
	}
	if away := away(in); len(away) > 0 && in.refusedEverywhere(in.job) {
		return reason.Of(reason.New(reason.NodesAway, "nodes", someNodes(away), "first", away[0], "said", in.state().Excluded[away[0]], "nodes_said", unable(in))), true
	}
	front := in.atFront(in.ID)
	switch least := sizes[0]; {
	case least > total && !front:
		return reason.Of(reason.New(reason.MoreThanAll, "least", least)).And(neverFits(in, total)...), true
	case least > total:
		return reason.Of(reason.New(reason.TooFewDevices, "least", least, "total", total, "nodes_said", unable(in))).And(neverFits(in, total)...), true
	case least > usable && !front:
		return reason.Of(reason.New(reason.MoreThanHealthy, "least", least)), true
	case least > usable:
		return reason.Of(reason.New(reason.TooFewHealthy, "least", least, "total", total, "usable", usable, "nodes_said", outOfService(in))), true
	}
	switch {
	case !in.decided && in.decisions.fault != "":
		return reason.Of(reason.New(reason.Undecidable, "said", in.decisions.fault)), true
	case !in.decided && in.inherited && !in.state().Reason.Has(reason.Accepted):
		return nil, false // what the leader before has found out stands until this one has asked
	case !in.decided:
		return reason.Of(reason.New(reason.Undecided)), !in.asking()
	case in.target.Workers() > 0:
		return in.blocked, len(in.blocked) > 0
	case in.target.reason != "" && front:
		return policyWhy(in.target.reason), true
	}
	return reason.Of(reason.New(reason.WaitsForDevices, "least", sizes[0])), true
}

// neverFits says that a job waits without end, where it needs more than the
// cluster has even with the nodes that are lost and may come back; else nothing.
func neverFits(in situation, total int) reason.Reason {
	if in.sizes[0] <= total+in.nodes().away {
		return nil
	}
	return reason.Of(reason.New(reason.NeverFits, "said", in.Scaled().LargestText(total)))
}

// devicesFor counts the devices of nodes that have not refused the job, and those of them that can be given to it.
func devicesFor(in situation) (total, usable int) {
	total, usable = in.nodes().total, in.nodes().usable
	r := in.refusals(in.job)
	if r.counted { // for all jobs that demand the same
		return total - r.total, usable - r.usable
	}
	refusedTotal, refusedUsable := in.nodes().devicesOf(r.nodes)
	return total - refusedTotal, usable - refusedUsable
}

// unable says which nodes have refused the job, or have no devices for want of a
// driver, and why: mended, they would be among those that can run it.
func unable(in situation) string {
	return nodesWith(in, func(n cluster.Node) string {
		why := in.state().Excluded[n.ID]
		if why == "" && len(n.Devices) == 0 {
			why = in.node(n.ID).Inventory.Value.Problem
		}
		if why == "" {
			return ""
		}
		return fmt.Sprintf("%s: %s", n.ID, why)
	})
}

// outOfService says which nodes that can run the job are drained or cordoned, and why.
func outOfService(in situation) string {
	refused := refusedBy(in)
	return nodesWith(in, func(n cluster.Node) string {
		if _, no := refused[n.ID]; no || !n.Cordoned {
			return ""
		}
		v, what := in.node(n.ID).Cordon.Value, "cordoned"
		if v.Drain {
			what = "drained"
		}
		return strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", n.ID, what, v.Reason), ": ")
	})
}

// nodesWith puts into brackets what is to be said of nodes, of a few by name.
func nodesWith(in situation, of func(cluster.Node) string) string {
	var out []string
	for _, n := range in.live() {
		said := of(n)
		if said == "" {
			continue
		}
		if len(out) == named {
			out = append(out, "and more")
			break
		}
		out = append(out, said)
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// holdUnusable holds a job whose record, written by hand, has numbers that would
// spoil the decisions about all others. It takes no part in these.
func holdUnusable(in situation) *move {
	if in.unusable == "" {
		return nil
	}
	return recordPhase(in, "hold", next(in, cluster.Held, reason.Of(reason.New(reason.Unusable, "said", in.unusable))))
}

// hold stops trying when every node that is alive has refused the job, or its
// last checkpoint is lost: only its owner can mend that. One that is away and
// may be well when it is back is waited for.
func hold(in situation) *move {
	if noUsableCheckpoint(in.job) {
		return recordPhase(in, "hold", next(in, cluster.Held, noUsableCheckpointWhy(in.job)))
	}
	if !in.refusedEverywhere(in.job) || len(away(in)) > 0 {
		return nil
	}
	return recordPhase(in, "hold", next(in, cluster.Held, refusedEverywhereWhy(in)))
}

// unhold queues a held job again when a node is there that has not refused it.
func unhold(in situation) *move {
	if in.unusable != "" || noUsableCheckpoint(in.job) || in.refusedEverywhere(in.job) || len(in.live()) == 0 {
		return nil
	}
	return recordPhase(in, "queue", next(in, cluster.Queued, reason.Of(reason.New(reason.NodeThere))))
}
