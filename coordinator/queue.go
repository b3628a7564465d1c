package coordinator

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// explain keeps what a waiting job's owner can read up to date: why it waits.
// It writes only when that has changed.
func explain(in situation) *move {
	reason, known := pending(in)
	reason = reasonText(in, reason)
	if old := in.State.Value; !known || old.Phase == cluster.Queued && old.Reason == reason {
		return nil
	}
	s := next(in, cluster.Queued, reason)
	// What it waits for first is news to its owner; how that changes is shown, and not told.
	if old := in.state().Reason; reason == undecidedWhy || old != acceptedWhy && old != undecidedWhy {
		return recordPhase(in, "wait", s)
	}
	return &move{verb: "wait", job: in.JobView, then: []record.Op{record.Put(record.StateKey(in.ID), s)}, event: record.Event{
		Kind: record.JobQueued, Job: in.ID, Generation: in.number(), Why: reason,
	}}
}

// undecidedWhy is the reason of a job that was not part of a decision yet.
const undecidedWhy = "waits for the next decision"

// pending says why a queued job does not run; false while nothing is known yet.
func pending(in situation) (string, bool) {
	if in.paused().Exists() {
		return pausedWhy(in), true
	}
	if len(in.live()) == 0 {
		return "no node is alive", true
	}
	total, usable := devicesFor(in)
	sizes := in.sizes
	if len(sizes) == 0 {
		return "no world size fits its batch size", true
	}
	if away := away(in); len(away) > 0 && in.refusedEverywhere(in.job) {
		return fmt.Sprintf("waits for %s to be back (%s: %s); the other nodes cannot run it%s", someNodes(away), away[0], in.state().Excluded[away[0]], unable(in)), true
	}
	front := in.atFront(in.ID)
	switch least := sizes[0]; {
	case least > total && !front:
		return fmt.Sprintf("needs at least %s: more than the nodes that can run it have%s", count(least, "device"), neverFits(in, total)), true
	case least > total:
		return fmt.Sprintf("needs at least %s; the nodes that can run it have %d%s%s",
			count(least, "device"), total, unable(in), neverFits(in, total)), true
	case least > usable && !front:
		return fmt.Sprintf("needs at least %s: more than are healthy and not cordoned on nodes that can run it", count(least, "device")), true
	case least > usable:
		return fmt.Sprintf("needs at least %s; of %d on nodes that can run it %d are healthy and not cordoned%s",
			count(least, "device"), total, usable, outOfService(in)), true
	}
	switch {
	case !in.decided && in.decisions.fault != "":
		return "no decision: " + in.decisions.fault, true
	case !in.decided && in.inherited && in.state().Reason != acceptedWhy:
		return "", false // what the leader before has found out stands until this one has asked
	case !in.decided:
		return undecidedWhy, !in.asking()
	case in.target.Workers() > 0:
		return in.blocked, in.blocked != ""
	case in.target.reason != "" && front:
		return in.target.reason, true
	}
	return fmt.Sprintf("waits for %s", count(sizes[0], "device")), true
}

// neverFits says that a job waits without end, where it needs more than the
// cluster has even with the nodes that are lost and may come back; else nothing.
func neverFits(in situation, total int) string {
	if in.sizes[0] <= total+in.nodes().away {
		return ""
	}
	return fmt.Sprintf("; it never fits the cluster as it is: %s", in.Scaled().LargestText(total))
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
	return recordPhase(in, "hold", next(in, cluster.Held, in.unusable))
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
	return recordPhase(in, "queue", next(in, cluster.Queued, "a node that has not refused it is there"))
}
