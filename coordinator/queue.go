package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// closelyExplained is how many jobs at the front of the queue are told the
// numbers behind their waiting whenever those change. All others learn only what
// does not change with every node and decision: a long queue would be written
// anew each time. Their place in it is derived where it is read.
const closelyExplained = 100

// explain keeps what a waiting job's owner can read up to date: why it waits.
// It writes only when that has changed.
func (c *Coordinator) explain(f formed) bool {
	reason, known := c.pending(f)
	reason = c.worded(f.ID, reason)
	if old := f.State.Value; !known || old.Phase == cluster.Queued && old.Reason == reason {
		return false
	}
	s := c.next(f.JobView, cluster.Queued, reason)
	// What it waits for first is news to its owner; how that changes is shown, and not told.
	if old := f.state().Reason; reason == undecidedWhy || old != acceptedWhy && old != undecidedWhy {
		return c.put(f, "wait", s)
	}
	return c.send(move{verb: "wait", job: f.JobView, then: []record.Op{record.Put(record.StateKey(f.ID), s)}, event: record.Event{
		Kind: record.JobQueued, Job: f.ID, Generation: f.number(), Why: reason,
	}})
}

// undecidedWhy is the reason of a job that was not part of a decision yet.
const undecidedWhy = "waits for the next decision"

// pending says why a queued job does not run; false while nothing is known yet.
func (c *Coordinator) pending(f formed) (string, bool) {
	if c.mirror.Paused.Exists() {
		return c.pausedWhy(), true
	}
	if len(c.nodes()) == 0 {
		return "no node is alive", true
	}
	total, usable := c.open(f)
	sizes := f.sizes
	if len(sizes) == 0 {
		return "no world size fits its batch size", true
	}
	if away := c.away(f); len(away) > 0 && c.nowhere(f) {
		return fmt.Sprintf("waits for %s to be back (%s: %s); the other nodes cannot run it%s", someNodes(away), away[0], f.state().Excluded[away[0]], c.unable(f)), true
	}
	front := c.atFront(f.ID)
	switch least := sizes[0]; {
	case least > total && !front:
		return fmt.Sprintf("needs at least %s: more than the nodes that can run it have%s", count(least, "device"), c.neverFits(f, total)), true
	case least > total:
		return fmt.Sprintf("needs at least %s; the nodes that can run it have %d%s%s",
			count(least, "device"), total, c.unable(f), c.neverFits(f, total)), true
	case least > usable && !front:
		return fmt.Sprintf("needs at least %s: more than are healthy and not cordoned on nodes that can run it", count(least, "device")), true
	case least > usable:
		return fmt.Sprintf("needs at least %s; of %d on nodes that can run it %d are healthy and not cordoned%s",
			count(least, "device"), total, usable, c.outOfService(f)), true
	}
	t, decided := c.targets.of[f.ID]
	switch {
	case !decided && c.round.fault != "":
		return "no decision: " + c.round.fault, true
	case !decided:
		return undecidedWhy, c.round.asked == nil
	case t.Workers() > 0:
		return c.blocked[f.ID], c.blocked[f.ID] != ""
	case t.reason != "" && front:
		return t.reason, true
	}
	return fmt.Sprintf("waits for %s", count(sizes[0], "device")), true
}

// neverFits says that a job waits without end, where it needs more than the
// cluster has even with the nodes that are lost and may come back; else nothing.
func (c *Coordinator) neverFits(f formed, total int) string {
	if f.sizes[0] <= total+c.picture().away {
		return ""
	}
	return fmt.Sprintf("; it never fits the cluster as it is: %s", f.Scaled().LargestText(total))
}

// open counts the devices of nodes that have not refused the job, and those of them that can be given to it.
func (c *Coordinator) open(f formed) (total, usable int) {
	total, usable = c.picture().total, c.picture().usable
	barred := c.barred(f.JobView)
	if len(barred) == 0 {
		return total, usable
	}
	for _, n := range c.nodes() {
		if _, refused := barred[n.ID]; refused {
			total -= len(n.Devices)
			usable -= len(n.Usable())
		}
	}
	return total, usable
}

// named is how many nodes a reason names; there may be thousands.
const named = 3

// unable says which nodes have refused the job, or have no devices for want of a
// driver, and why: mended, they would be among those that can run it.
func (c *Coordinator) unable(f formed) string {
	return c.aside(func(n cluster.Node) string {
		why := f.state().Excluded[n.ID]
		if why == "" && len(n.Devices) == 0 {
			why = c.mirror.Node(n.ID).Inventory.Value.Problem
		}
		if why == "" {
			return ""
		}
		return fmt.Sprintf("%s: %s", n.ID, why)
	})
}

// outOfService says which nodes that can run the job are drained or cordoned, and why.
func (c *Coordinator) outOfService(f formed) string {
	barred := c.barred(f.JobView)
	return c.aside(func(n cluster.Node) string {
		if _, refused := barred[n.ID]; refused || !n.Cordoned {
			return ""
		}
		v, what := c.mirror.Node(n.ID).Cordon.Value, "cordoned"
		if v.Drain {
			what = "drained"
		}
		return strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", n.ID, what, v.Reason), ": ")
	})
}

// aside puts into brackets what is to be said of nodes, of a few by name.
func (c *Coordinator) aside(of func(cluster.Node) string) string {
	var out []string
	for _, n := range c.nodes() {
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

// hold stops trying when every node that is alive has refused the job, or its
// last checkpoint is lost: only its owner can mend that. One that is away and
// may be well when it is back is waited for.
func (c *Coordinator) hold(f formed) bool {
	if bereft(f) {
		return c.put(f, "hold", c.next(f.JobView, cluster.Held, bereftWhy(f)))
	}
	if !c.nowhere(f) || len(c.away(f)) > 0 {
		return false
	}
	return c.put(f, "hold", c.next(f.JobView, cluster.Held, c.nowhereWhy(f)))
}

// unhold queues a held job again when a node is there that has not refused it.
func (c *Coordinator) unhold(f formed) bool {
	if bereft(f) || c.nowhere(f) || len(c.nodes()) == 0 {
		return false
	}
	return c.put(f, "queue", c.next(f.JobView, cluster.Queued, "a node that has not refused it is there"))
}

// barred are the nodes on which the job must not start, and why: those that have
// refused it, those that it does not want, and those that would not keep its limits
// or let it gain rights.
func (c *Coordinator) barred(v *record.JobView) map[cluster.NodeID]string {
	where, limited, noPrivs := v.Spec.Value.Where, v.Spec.Value.PerWorker != cluster.Limits{}, v.Spec.Value.NoNewPrivs
	if where.Anywhere() && !limited && !noPrivs {
		return v.State.Value.Excluded
	}
	barred := maps.Clone(v.State.Value.Excluded)
	for _, n := range c.nodes() {
		why := where.Refuses(n)
		if why == "" && limited && !c.mirror.Node(n.ID).Alive.Value.Limits {
			why = "its agent is of a version that knows no limits of workers: upgrade it"
		}
		if why == "" && noPrivs && !c.mirror.Node(n.ID).Alive.Value.NoNewPrivs {
			why = "its agent is of a version that does not know --no-new-privs: upgrade it"
		}
		if why != "" && barred[n.ID] == "" {
			if barred == nil {
				barred = map[cluster.NodeID]string{}
			}
			barred[n.ID] = why
		}
	}
	return barred
}

// nowhere reports whether nodes are alive and all of them refused the job.
func (c *Coordinator) nowhere(f formed) bool {
	barred := c.barred(f.JobView)
	if len(barred) == 0 {
		return false
	}
	nodes := c.nodes()
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n cluster.Node) bool {
		_, refused := barred[n.ID]
		return !refused
	})
}
