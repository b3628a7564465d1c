package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// A node may fail of something that passes: a full disk, a file system that is
// read-only, hangs or fails. Nothing is charged. The job goes elsewhere if it
// can; if not it waits and tries again:
//
//	failed ──► elsewhere, the node excluded as passing ──► the node says that it is over: back in
//	   └── nowhere else ──► backoff ──► START, at the end of the wait or when the nodes say that it is over
//	                           └── mostRetries in a row ──► held
//
// A full disk is waited for without an end, because its remedy is known and said.
// A node that misses what the job needs (working directory, program, env file) is
// excluded until it says that it is there; each time counts as a try.
const (
	// mostRetries is how often in a row: with waits that double up to
	// transientMost, most of a working day.
	mostRetries   = 60
	transientMost = 10 * time.Minute
	// roomDoublings make the wait for room half a minute, by default.
	roomDoublings = 5
	// hastyMost is how long a job waits at least although its nodes say that what
	// it failed of is over, because they may be wrong: as little as people do not
	// mind. From hastyTries on they have been wrong each time about what is tried
	// so often only, and the wait is a longer one.
	hastyMost  = 8 * time.Second
	hastyTries = 16
	// ranWell is how long a generation has to run for its next failure to be
	// another one.
	ranWell = 10 * time.Minute
)

// awaitRoom makes a job wait whose start or save found a disk full: to try at
// once would be in vain or lose the same steps again.
func awaitRoom(in situation) *move {
	first, ok := firstFailure(in)
	if !ok || first.failed.Kind != record.NoSpace {
		return nil
	}
	why := in.gen.Halt.Value.Why
	if !why.Includes(first.said()) {
		why = why.And(first.said())
	}
	s := next(in, cluster.Backoff, why)
	s.RoomWaits++
	s.Next = in.now.Add(min(in.cfg.Timing.BackoffMost, in.cfg.Timing.BackoffFirst<<roomDoublings))
	return recordPhase(in, "backoff", s)
}

// excludes reports whether a job is kept from a node. A node that gave no reason excludes itself all the same.
func excludes(s record.State, n cluster.NodeID) bool {
	_, excluded := s.Excluded[n]
	return excluded
}

// awaitTransient makes a job wait that could run if what passes were over, and
// cannot anywhere else. All its nodes are tried again after that.
func awaitTransient(in situation) *move {
	s := in.state()
	passing := slices.DeleteFunc(slices.Clone(s.Passing), func(n cluster.NodeID) bool {
		return !excludes(s, n) || !in.node(n).Alive.Exists()
	})
	if len(passing) == 0 || s.Retries >= mostRetries || placeable(in, refusedBy(in)) {
		return nil
	}
	why, more := []string{}, ""
	if len(passing) > named {
		passing, more = passing[:named], "; and more"
	}
	for _, n := range passing { // what follows is not to be cut
		why = append(why, fmt.Sprintf("%s: %s", n, record.Cut(s.Excluded[n], record.MaxReason/2/len(passing))))
	}
	waits := reason.Of(
		reason.New(reason.CannotRunNow, "said", strings.Join(why, "; ")+more),
		reason.New(reason.StartsAgain), reason.New(reason.TryOf, "n", s.Retries+1, "most", mostRetries),
	)
	next := readmitted(next(in, cluster.Backoff, waits), s.Passing)
	next.Retries++
	next.Next = in.now.Add(doubled(in.cfg.Timing.BackoffFirst, transientMost, s.Retries))
	return recordPhase(in, "backoff", next)
}

// doubled is a wait after n others, each twice as long as the one before.
func doubled(first, most time.Duration, n int) time.Duration {
	if n >= 16 { // further doubling has long passed the cap, and would overflow one day
		return most
	}
	return min(most, first<<max(0, n)) // a count in a record written by hand may be negative
}

// placeable reports whether the job could run, at its smallest, without these nodes.
func placeable(in situation, without map[cluster.NodeID]string) bool {
	if len(in.sizes) == 0 {
		return false
	}
	want := place.Count{Job: in.ID, Workers: in.sizes[0], Excluded: slices.Sorted(maps.Keys(without))}
	models := in.nodes().models
	if len(models) < 2 || in.Spec.Value.Where.MixModels {
		models = []string{""}
	}
	return slices.ContainsFunc(models, func(m string) bool {
		want.Model = m
		return len(place.Place(in.live(), nil, []place.Count{want}).Allocations) > 0
	})
}

// readmitted is the state in which the nodes may run the job again. It changes the
// map of excluded nodes, which next has cloned.
func readmitted(s record.State, nodes []cluster.NodeID) record.State {
	for _, n := range nodes {
		delete(s.Excluded, n)
	}
	s.Passing = slices.DeleteFunc(slices.Clone(s.Passing), func(n cluster.NodeID) bool { return slices.Contains(nodes, n) })
	return s
}

// readmit lets nodes run the job again that say that what they failed of is over,
// unless the job was tried so often that only its owner has it tried again.
func readmit(in situation) *move {
	if in.state().Phase == cluster.Held && in.state().Retries >= mostRetries {
		return nil
	}
	var over []cluster.NodeID
	tries := 0
	for _, n := range slices.Sorted(maps.Keys(in.state().Excluded)) {
		passing := slices.Contains(in.state().Passing, n)
		said, kept := reportedOver(in, n)
		switch {
		case passing && (said || !kept):
			over = append(over, n)
		case !passing && said && in.state().Retries < mostRetries: // what was missing is there
			over, tries = append(over, n), 1
		}
	}
	if len(over) == 0 {
		return nil
	}
	s := readmitted(next(in, in.state().Phase, in.state().Reason), over)
	s.Retries += tries
	return &move{verb: "readmit", job: in.JobView, then: []record.Op{record.Put(record.StateKey(in.ID), s)}}
}

// reportedOver reports whether the node has said that what it failed of is over, of
// the newest generation in which it failed. Once that is no longer kept the node
// looks no more: a node that failed of what passes is tried again then, as it
// would stay excluded for ever.
func reportedOver(in situation, n cluster.NodeID) (said, kept bool) {
	for g := in.number(); g > 0 && g+keptGenerations > in.number(); g-- {
		nonce := in.Generation(g).Plan.Value.World.Nonce
		if acks := in.node(n).Ack(in.ID, g, nonce); acks.Failed.Exists() {
			return acks.Cleared.Exists(), true
		}
	}
	return false, false
}

// away are the nodes that failed of something that passes and are not there now:
// people restart nodes to mend what they failed of.
func away(in situation) []cluster.NodeID {
	s := in.state()
	if s.Retries >= mostRetries {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Passing), func(n cluster.NodeID) bool {
		v := in.node(n)
		return v.Alive.Exists() || !v.Inventory.Exists() || !excludes(s, n)
	})
}

// cleared reports whether every node that has failed of something that passes
// says that it is over.
func cleared(in situation) bool {
	found := false
	for _, m := range in.world().Members {
		acks := acks(in, m.Node)
		if !acks.Failed.Exists() || !acks.Failed.Value.Kind.MayPass() {
			continue
		}
		if !acks.Cleared.Exists() {
			return false
		}
		found = true
	}
	return found
}

// retryAt is when a job's wait after a failure ends, on this term's clock.
func retryAt(in situation) time.Time {
	s := in.state()
	most := in.cfg.Timing.BackoffMost
	if s.Retries > 0 {
		most = max(most, transientMost)
	}
	left := min(s.Next.Sub(s.Since), most)
	if waits := s.Retries + s.RoomWaits; waits > 0 && cleared(in) {
		hasty := doubled(in.cfg.Timing.BackoffFirst, hastyMost, waits-1)
		if first, _ := firstFailure(in); s.Retries > hastyTries && first.failed.Kind == record.Transient {
			hasty = in.cfg.Timing.BackoffMost
		}
		left = min(left, hasty)
	}
	return in.since(wait{in.ID, retryWait}, s.Next).Add(left)
}
