package coordinator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// Each of these rules is needed: without it, one of the first storms breaks an invariant.
func TestStormsBreakWhatHasNoRule(t *testing.T) {
	const enough = 100
	for _, c := range []struct {
		name    string
		without coordinator.Rule
		want    string
	}{
		{"leader compare", coordinator.LeaderCompare, "I10"},
		{"state compare", coordinator.StateCompare, "I10"},
		{"wait for lost nodes", coordinator.LostWait, "I1"},
		{"generation of a commit", coordinator.CommitGeneration, "I2"},
		{"two witnesses", coordinator.TwoWitnesses, "I5"},
		{"grants that follow a start", coordinator.GrantRest, "I9"},
		{"doubt after a failure", coordinator.DoubtFailed, "I5"},
		{"one checkpoint of a step", coordinator.OnePerStep, "I5"},
		{"waits on the leader's own clock", coordinator.OwnClock, "save"},
		{"waits for what is parked, at a start", coordinator.ParkedOver, "I1"},
		{"waits for what is parked, at an end", coordinator.ParkedOver, "I12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(enough) {
				for _, fault := range weather(seed, c.without).faults {
					if strings.Contains(fault, c.want+":") {
						t.Logf("seed %d: %s", seed, fault)
						return
					}
				}
			}
			t.Errorf("%d storms without this rule have not broken %s: is it of any use?", enough, c.want)
		})
	}
}

// Other rules are for moments so short that storms miss them: each has a schedule
// of its own, which breaks without the rule and does not with it.
func TestSchedulesBreakWhatHasNoRule(t *testing.T) {
	for _, c := range []struct {
		name     string
		rule     coordinator.Rule
		schedule func(*testing.T, coordinator.Rule) (broken bool)
	}{
		{"alive still absent, decided", coordinator.AliveAbsent, frozenNodeIsBack},
		{"alive still absent, on its way", coordinator.AliveAbsent, frozenNodeComesBack},
		{"alive still absent, at the fence", coordinator.AliveAbsent, fencedNodeComesBack},
		{"resolve an unknown start", coordinator.ResolveUnknown, lateStart},
		{"a plan holds its devices", coordinator.PlanHolds, halfGranted},
		{"nodes that fence themselves", coordinator.FencingKnown, joinedUnseen},
		{"back is back", coordinator.Rewind, goesBack},
		{"a promise that stands", coordinator.PromiseStands, promiseTakenBack},
		{"over before removed", coordinator.RemoveOver, removedTooSoon},
		{"over before removed, on its way", coordinator.RemoveOver, removedInBetween},
		{"a lost timeline's end", coordinator.SameTimeline, endedInALostTimeline},
		{"a lost timeline's offer", coordinator.SameTimeline, offeredInALostTimeline},
		{"grants that stand", coordinator.GrantsStand, grantedInALostTimeline},
		{"grants that stand, with another on its way", coordinator.GrantsStand, carriedIntoTheRestored},
		{"what is parked is known", coordinator.ParkedKnown, begunUnseen},
		{"cold after a failed warm start", coordinator.ColdAfterWarm, warmStartFails},
		{"less where all is too much", coordinator.SmallerForm, tooMuchForEtcd},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.schedule(t, 0) {
				t.Error("the invariant is broken although the rule is in force")
			}
			if !c.schedule(t, c.rule) {
				t.Error("nothing is broken without the rule: is it of any use?")
			}
		})
	}
}

func newLabWithout(without coordinator.Rule) *lab {
	l := newLab()
	l.lead(without)
	return l
}

func play(t *testing.T, l *lab, story string) {
	t.Helper()
	for line := range strings.Lines(story) {
		if err := l.do(strings.TrimSpace(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// A machine freezes, and is fenced; it thaws, and its agent lives again before
// its shim has killed the workers. They are gone when it acknowledges, not before.
const frozen = `node n1 gpus=2
	node n2 gpus=2
	want j=4
	submit j
	started j
	gone n2
	advance 12s`

func frozenNodeIsBack(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, frozen+`
		node n2 gpus=2
		stopped j n1`)
	return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")).Generation == 2 // while 1 still runs on n2
}

// The same, but START is on its way when the node comes back.
func frozenNodeComesBack(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, frozen)
	l.holding = true
	play(t, l, "stopped j n1")
	if len(l.waiting) != 1 || !strings.HasPrefix(l.waiting[0].ID, "start ") {
		t.Fatalf("held: %v", l.waiting)
	}
	play(t, l, "node n2 gpus=2")
	return l.mem.Commit(l.waiting[0]).Result == record.Applied
}

// FENCE is on its way when the node comes back. Were it to land, the node's next
// loss would count as waited for.
func fencedNodeComesBack(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=2
		node n2 gpus=2
		want j=4
		submit j
		started j
		gone n2`)
	l.holding = true
	play(t, l, "advance 12s")
	held := slices.Clone(l.waiting)
	l.commit(record.Put(record.AliveKey("n2"), record.Alive{})) // and has not given its word yet
	for _, txn := range held {
		if strings.HasPrefix(txn.ID, "fence ") {
			return l.mem.Commit(txn).Result == record.Applied
		}
	}
	t.Fatalf("held: %v", held)
	return false
}

// START of a gets no answer, and a decision gives its device to b. Then the START of a arrives after all.
func lateStart(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	l.want["a-aaaaaa"], l.want["b-aaaaaa"] = 1, -1
	play(t, l, `node n1 gpus=1
		think
		submit a workers=1..1
		submit b workers=1..1`)
	l.holding = true
	play(t, l, "decide")
	late := l.waiting[0]
	l.waiting = l.waiting[1:]
	if !strings.HasPrefix(late.ID, "start a-") {
		t.Fatalf("sent: %s", late.ID)
	}
	l.want["a-aaaaaa"], l.want["b-aaaaaa"] = -1, 1
	l.thinks = true
	l.now = l.now.Add(10 * time.Second)
	l.step(coordinator.Tick{})
	l.step(coordinator.Outcome{Outcome: record.Outcome{ID: late.ID, Result: record.Unknown, Err: errors.New("deadline exceeded")}})
	play(t, l, "decide")
	l.reload()
	for len(l.waiting) > 0 { // whatever is not about a goes its way
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		if !strings.Contains(next.ID, " a-") {
			l.step(coordinator.Outcome{Outcome: l.mem.Commit(next)})
			l.watch()
		}
	}
	l.mem.Commit(late)
	return l.shared(t, "n1")
}

// A node that was alone is cut off, and its workers live on; a second one joins.
func joinedUnseen(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=1
		submit j workers=1..1
		started j
		gone n1
		node n2 gpus=1
		advance 1m`)
	return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")).Generation == 2 // while 1 runs on n1
}

// etcd was restored from a backup. What was said of the generation that had the
// number before is still there, or comes only now, while the new one runs.
const restored = `secret x
	node n1 gpus=1
	node n2 gpus=1
	want j=2
	submit j workers=2..2
	started j
	`

func endedInALostTimeline(t *testing.T, without coordinator.Rule) bool {
	l := newLab()
	l.without = without
	play(t, l, restored+`failed j n1
		stopped j n1
		stopped j n2 nonce=lost
		advance 1m`)
	return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")).Generation == 2 // while 1 runs on n2
}

func offeredInALostTimeline(t *testing.T, without coordinator.Rule) bool {
	l := newLab()
	l.without = without
	play(t, l, restored+"offer j step=90 nonce=lost")
	return recorded[record.Checkpoint](l.mem, record.CommittedKey("j-aaaaaa")).Step == 90
}

// A backup is made while a has the only device of n1. Then a ends, and a decision
// gives the device to b; before START is sent, etcd is restored, and a has it again.
func grantedInALostTimeline(t *testing.T, without coordinator.Rule) bool {
	l, _ := deviceFreedSince(t, without)
	play(t, l, "decide")
	return l.shared(t, "n1")
}

// The same, but a START of c was on its way since before a had ended, and lands in
// the restored etcd: what is granted is written there later than this leader knows.
func carriedIntoTheRestored(t *testing.T, without coordinator.Rule) bool {
	l, late := deviceFreedSince(t, without)
	if o := l.mem.Commit(late); o.Result != record.Applied {
		t.Fatalf("%s: %v", late.ID, o.Result)
	}
	play(t, l, "decide")
	return l.shared(t, "n1")
}

// deviceFreedSince returns a leader that is about to give b what a has in the restored
// etcd, and a START of c that is on its way.
func deviceFreedSince(t *testing.T, without coordinator.Rule) (*lab, record.Txn) {
	t.Helper()
	l := newLabWithout(without)
	l.want["a-aaaaaa"], l.want["b-aaaaaa"], l.want["c-aaaaaa"] = 1, -1, 1
	play(t, l, `node n1 gpus=1
		submit a workers=1..1 on=n1
		submit b workers=1..1 on=n1
		started a
		node n2 gpus=1`)
	l.holding = true
	play(t, l, "submit c workers=1..1 on=n2")
	var late record.Txn
	for len(l.waiting) > 0 { // whatever is not the START of c goes its way
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		if strings.HasPrefix(next.ID, "start c-") {
			late = next
			continue
		}
		l.step(coordinator.Outcome{Outcome: l.mem.Commit(next)})
		l.watch()
	}
	if late.ID == "" {
		t.Fatal("c does not start")
	}
	l.holding = false
	backup := l.mem.Backup()
	l.want["a-aaaaaa"], l.want["b-aaaaaa"] = -1, 1
	l.thinks = true
	play(t, l, `stop a now
		stopped a
		advance 10s`)
	if _, granted := l.mem.Get(record.GrantKey("n1", "a-aaaaaa")); granted {
		t.Fatal("a has its device still")
	}
	l.mem.Restore(backup)
	l.watched = l.mem.Revision()
	return l, late
}

// The owner goes back to step 100. What the last generation has offered since is
// still there, and one more such offer comes late.
func goesBack(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=1
		submit j workers=1..1
		started j
		offer j step=100
		offer j step=120
		stop j
		held j begun=130
		stopped j
		want j=-1
		resume j from=100
		offer j step=130`)
	return recorded[record.Checkpoint](l.mem, record.CommittedKey("j-aaaaaa")).Step != 100
}

// shared reports whether both jobs, a and b, hold the node's only device.
func (l *lab) shared(t *testing.T, n cluster.NodeID) bool {
	t.Helper()
	holders := 0
	for _, job := range []cluster.JobID{"a-aaaaaa", "b-aaaaaa"} {
		if _, granted := l.mem.Get(record.GrantKey(n, job)); granted {
			holders++
		}
	}
	if holders == 0 {
		t.Error("no job has the device")
	}
	return holders > 1
}

// START of a does not fit into one transaction, and the grant of its last device
// gets lost time and again, while a is stopped and b waits for a device.
func halfGranted(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	l.limit = fewOps
	l.lead(without)
	l.want["a-aaaaaa"] = 4
	play(t, l, `node n1 gpus=1
		node n2 gpus=1
		node n3 gpus=1
		node n4 gpus=1`)
	l.holding = true
	play(t, l, "submit a workers=4..4")
	lost := 0
	deliver := func() {
		for most := lost + 5; len(l.waiting) > 0; {
			next := l.waiting[0]
			l.waiting = l.waiting[1:]
			if strings.HasPrefix(next.ID, "grant a-") {
				if lost++; lost > most {
					continue // that will do: it stays on its way
				}
				l.step(coordinator.Outcome{Outcome: record.Outcome{ID: next.ID, Result: record.Unknown, Err: errors.New("deadline exceeded")}})
				l.reload()
				continue
			}
			l.step(coordinator.Outcome{Outcome: l.mem.Commit(next)})
		}
	}
	deliver()
	play(t, l, `stop a
		cordon n1
		cordon n2
		cordon n3
		submit b workers=1..1`)
	l.lead(without)
	deliver()
	l.now = l.now.Add(10 * time.Second)
	l.step(coordinator.Tick{})
	deliver()
	if lost == 0 {
		t.Error("the start was granted at once")
	}
	l.holding = false
	l.lead(without)
	return l.shared(t, "n4")
}

// A node is about to be given up by its word. It is back for a moment, alone, and
// takes its word back; then it vanishes once more, and its workers live on.
func promiseTakenBack(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=1
		node n2 gpus=1
		submit j workers=1..1
		started j
		gone n1`)
	l.holding = true
	play(t, l, "advance 12s")
	l.commit(record.Put(record.FencingKey("n1"), record.Fencing{}))
	for _, txn := range l.waiting {
		if strings.HasPrefix(txn.ID, "fence ") {
			return l.mem.Commit(txn).Result == record.Applied
		}
	}
	t.Fatalf("held: %v", l.waiting)
	return false
}

// A node is removed as soon as it is lost, and never comes back: its job goes on without it.
func removedTooSoon(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=1
		node n2 gpus=1
		want j=2
		submit j workers=1..2
		started j
		gone n2
		remove n2
		stopped j n1
		advance 1m`)
	return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")).Generation == 1
}

// The same, but START is still on its way when the node is lost and to be removed.
func removedInBetween(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=1
		node n2 gpus=1
		think
		submit j workers=1..1 on=n2`)
	l.holding = true
	play(t, l, "decide")
	late := l.waiting[0]
	l.waiting = l.waiting[1:]
	if !strings.HasPrefix(late.ID, "start j-") {
		t.Fatalf("sent: %s", late.ID)
	}
	play(t, l, `gone n2
		remove n2`)
	for len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.step(coordinator.Outcome{Outcome: l.mem.Commit(next)})
	}
	l.holding = false
	l.step(coordinator.Outcome{Outcome: l.mem.Commit(late)})
	play(t, l, "advance 1m")
	return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")).Phase.Active()
}

// A job that may not fail once fails in a warm start: a cold one would train it.
func warmStartFails(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=1
		submit j workers=1..1 start=warm restarts=0
		started j warm=yes
		failed j n1 rank=0 why=psutil.NoSuchProcess
		stopped j`)
	return recorded[record.State](l.mem, record.StateKey(jobID("j"))).Phase == cluster.Failed
}

// A node says that it begins to prepare at the moment at which it is told not to any more, and the leader hears of
// that after everything else.
func begunUnseen(t *testing.T, without coordinator.Rule) bool {
	l := newLabWithout(without)
	play(t, l, `node n1 gpus=2
		node n2 gpus=2
		want j=4
		submit j workers=2..4 start=warm
		started j
		progress j n1 step=5
		offer j step=4
		advance 10s
		want j=2
		node n3 gpus=1`)
	l.holding = true
	play(t, l, "advance 10s")
	id := jobID("j")
	asked := record.NextKey("n2", id)
	next, begun := recorded[record.Next](l.mem, asked), false
	hear := func(ev coordinator.Event) {
		fx := l.c.Step(l.now, ev)
		l.waiting = append(l.waiting, fx.Txns...)
		if fx.Reload {
			kvs, rev := l.mem.Range(record.Root)
			l.waiting = append(l.waiting, l.c.Step(l.now, coordinator.Loaded{KVs: kvs, Revision: rev}).Txns...)
		}
	}
	deliver := func() {
		for len(l.waiting) > 0 {
			txn := l.waiting[0]
			l.waiting = l.waiting[1:]
			if !begun && slices.ContainsFunc(txn.Then, func(op record.Op) bool { return op.Delete && op.Key == asked }) {
				begun = true
				l.commit(record.Put(record.ReadyKey("n2", id), record.Ready{Generation: next.Generation, Nonce: next.Nonce, Begun: true}))
			}
			hear(coordinator.Outcome{Outcome: l.mem.Commit(txn)})
		}
	}
	deliver()
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		key := record.AckKey(n, id, 1, record.AckStopped)
		l.commit(record.Put(key, record.Stopped{}))
		kv, _ := l.mem.Get(key)
		hear(coordinator.Changed{Changes: []record.Change{{KV: kv}}})
		deliver()
	}
	if !begun {
		t.Fatal("no node was told to end what it prepares")
	}
	_, started := l.mem.Get(record.PlanKey(id, 2))
	return started // while what n2 has begun may run
}
