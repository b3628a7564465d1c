package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// damagedOn is a job whose second generation is about to find its checkpoint
// damaged on n1, while n2 has room for a third. Transactions wait for deliver.
func damagedOn(t *testing.T) *lab {
	t.Helper()
	l := newLab()
	play(t, l, `node n1 gpus=1
		node n2 gpus=1
		submit j workers=1..1
		started j
		offer j step=100
		offer j step=120
		failed j n1 kind=fenced rank=-1
		stopped j`)
	if s := nowOf(l); s.Phase != cluster.Starting || s.Generation != 2 {
		t.Fatalf("before: %+v", s)
	}
	l.answers()
	l.holding = true
	return l
}

// deliver commits what the leader sends, up to a bound that no sound one reaches,
// and returns how often a transaction of the verb was among it.
func deliver(t *testing.T, l *lab, verb string) int {
	t.Helper()
	times := 0
	for range 50 {
		if len(l.waiting) == 0 {
			return times
		}
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		if strings.HasPrefix(l.describe(next), "txn "+verb+" ") {
			times++
		}
		l.step(coordinator.Outcome{Outcome: l.mem.Commit(next)})
	}
	t.Fatalf("the leader sends without end; %s %d times", verb, times)
	return 0
}

// A suspicion's texts may have been cut, by this leader or by one of another version:
// what names the checkpoint is whole, so the suspicion is known again, and the
// second node that finds the damage has the checkpoint given up.
func TestSuspicionIsKnownAgainWhereItIsCut(t *testing.T) {
	t.Parallel()
	l := damagedOn(t)
	play(t, l, "failed j n1 kind=checkpoint rank=-1 why="+strings.Repeat("damaged_", record.MaxReason))
	if n := deliver(t, l, "suspect"); n != 1 {
		t.Fatalf("the suspicion was written %d times, want once", n)
	}
	s := nowOf(l)
	if s.Suspect == nil || len(s.Suspect.Reason) > record.MaxReason {
		t.Fatalf("suspected: %+v", s.Suspect)
	}
	s.Suspect.Dir, s.Suspect.Reason = s.Suspect.Dir[:5], record.Cut(s.Suspect.Reason, record.SmallReason)
	l.commit(record.Put(record.StateKey("j-aaaaaa"), s))
	l.watch()
	if n := deliver(t, l, "suspect"); n != 0 {
		t.Errorf("cut, it was written anew %d times", n)
	}
	play(t, l, "stopped j")
	deliver(t, l, "start")
	play(t, l, "failed j n2 kind=checkpoint rank=-1 why=x_is_corrupt")
	if n := deliver(t, l, "fall-back"); n != 1 {
		t.Errorf("two nodes find it damaged, and it was given up %d times: %+v", n, nowOf(l))
	}
}

// A node may find a checkpoint damaged and not say how: its suspicion is written
// once, like any other, and where no second node can look the job is let back.
func TestSuspicionWithoutAReasonIsWrittenOnce(t *testing.T) {
	t.Parallel()
	l := damagedOn(t)
	play(t, l, "failed j n1 kind=checkpoint rank=-1 why=")
	if n := deliver(t, l, "suspect"); n != 1 {
		t.Fatalf("the suspicion was written %d times, want once", n)
	}
	l.step(coordinator.Tick{})
	if n := deliver(t, l, "suspect"); n != 0 {
		t.Errorf("it was written again %d times", n)
	}
	l.holding = false
	play(t, l, "gone n2\nstopped j")
	untilPhase(t, l, cluster.Starting, 10*time.Minute)
	if at := recorded[record.Plan](l.mem, record.PlanKey("j-aaaaaa", nowOf(l).Generation)).World.Members[0].Node; at != "n1" {
		t.Errorf("started on %s, want n1", at)
	}
}
