package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// waits is the time, and when this term first saw that something is waited for.
//
// A wait is recorded as two moments of the clock of the leader that led when it
// began, and means the time between them. Each term counts it on its own clock,
// from when it first saw that it had begun: a new leader's clock may be minutes
// off, and one that took the second moment literally would cut saves short.
// What that costs is that a wait begins anew with a new leader. See ADR 30.
//
// What takes days, as the records of jobs that have ended, or adds up over many
// leaders, as a job's time limit, goes by the wall clock.
type waits struct {
	now      time.Time // for records
	clock    time.Time // the same with its monotonic reading, for waits: neither setting the wall clock nor another leader's shortens one
	wakeAt   time.Time // when a Step is needed at the latest; zero = no need
	byRecord bool      // OwnClock is switched off
	begun    map[wait]begun
	absent   map[cluster.NodeID]time.Time // when the node's alive key was first seen to be missing
}

func newWaits(cfg *Config) *waits {
	return &waits{byRecord: cfg.Without&OwnClock != 0, begun: map[wait]begun{}, absent: map[cluster.NodeID]time.Time{}}
}

// wait is one kind of wait of one job.
type wait struct {
	job  cluster.JobID // "" = the cluster
	what waitKind
}

type waitKind uint8

const (
	saveWait    waitKind = iota // for a halted generation to save
	startWait                   // for a generation to start as a gang
	retryWait                   // after a failure
	secondWait                  // for a second node to look at a checkpoint
	doneWait                    // for a job with nothing left to end
	speedWait                   // for the next record of its speed
	parkedWait                  // for what was prepared elsewhere to end
	prepareWait                 // for the nodes of a decided world to be ready
	spareWait                   // for a generation to have trained long enough to have the next prepared
	pauseWait                   // for all jobs to have stopped in a pause
)

// begun is when a wait began: by the records, and as this term has seen it.
type begun struct{ mark, seen time.Time }

// begin takes in the time of a Step.
func (w *waits) begin(now time.Time) { w.now, w.clock, w.wakeAt = now.Round(0).UTC(), now, time.Time{} }

// wake asks for a Step at t, if that is still to come.
func (w *waits) wake(t time.Time) {
	if t.After(w.clock) && (w.wakeAt.IsZero() || t.Before(w.wakeAt)) {
		w.wakeAt = t
	}
}

// since returns when this term first saw the wait that began at mark, on its own clock.
func (w *waits) since(of wait, mark time.Time) time.Time {
	if w.byRecord {
		return w.clock.Add(-w.now.Sub(mark))
	}
	b, ok := w.begun[of]
	if !ok || !b.mark.Equal(mark) {
		b = begun{mark, w.clock}
		w.begun[of] = b
	}
	return b.seen
}

// end ends a wait: the next of its kind begins anew.
func (w *waits) end(of wait) { delete(w.begun, of) }

// forget drops what a job that is gone waited for.
func (w *waits) forget(job cluster.JobID) {
	for what := saveWait; what <= pauseWait; what++ {
		delete(w.begun, wait{job, what})
	}
}

// watchNodes starts the wait for each node whose alive key is missing, and ends that of each which is back.
//
// What a fence needs is that the life which the member was planned with ended at
// least that long ago: its workers die by the last renewal of its lease, and a
// life that has ended is never renewed. So the wait counts from when this term
// first knew that the life was over, and ends when the node is seen alive.
// Neither a listing nor a life that came and went unseen, between two listings or
// within one batch of changes, restarts it: no plan names a life that this leader
// did not see, a later life renews the workers of none before, and one that has
// given its promise has by that taken back the promise of those before (see fencesItself). See ADR 34.
func (w *waits) watchNodes(m *record.Mirror) {
	for _, id := range m.NodeIDs() {
		_, waiting := w.absent[id]
		switch alive := m.Node(id).Alive.Exists(); {
		case alive:
			delete(w.absent, id)
		case !waiting:
			w.absent[id] = w.clock
		}
	}
}

// absentSince returns when the node's alive key was first seen to be missing; false if it is there.
func (w *waits) absentSince(n cluster.NodeID) (time.Time, bool) {
	since, absent := w.absent[n]
	return since, absent
}
