package coordinator_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

// clean is a node and a job of which no record is ever made wrong.
func clean(key string) bool {
	return strings.HasPrefix(key, record.NodePrefix("clean")) || strings.HasPrefix(key, record.JobPrefix("clean-aaaaaa")) ||
		strings.HasPrefix(key, record.LeaderPrefix) || strings.HasPrefix(key, record.EventsPrefix)
}

// besieged is a leader in virtual time whose records others make wrong.
type besieged struct {
	c       *coordinator.Coordinator
	mem     *record.Memory
	now     time.Time
	watched int64
	events  []coordinator.Event
	wake    time.Time // for an alarm of the leader's; zero = none
	list    time.Time // for the listing that it wants; zero = none
	lists   int
	sent    []string // transactions, by what they are
}

// listEvery is how often a leader lists at most, as lead does.
const listEvery = 200 * time.Millisecond

func (b *besieged) load() {
	kvs, revision := b.mem.Range(record.Root)
	b.watched, b.list = revision, time.Time{}
	b.events = append(b.events, coordinator.Loaded{KVs: kvs, Revision: revision})
}

// advance lets time pass, and whatever happens in it.
func (b *besieged) advance(by time.Duration) {
	for end := b.now.Add(by); ; {
		if changes, err := b.mem.Changes(b.watched+1, record.Root); err != nil {
			panic(err)
		} else if len(changes) > 0 {
			b.watched = b.mem.Revision()
			b.events = append(b.events, coordinator.Changed{Changes: changes})
		}
		if len(b.events) > 0 {
			next := b.events[0]
			b.events = b.events[1:]
			b.step(next)
			continue
		}
		next := end
		for _, at := range []time.Time{b.wake, b.list} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if b.now = next; !next.Before(end) {
			return
		}
		if next.Equal(b.list) {
			b.load()
		} else {
			b.step(coordinator.Tick{})
		}
	}
}

func (b *besieged) step(ev coordinator.Event) {
	fx := b.c.Step(b.now, ev)
	b.wake = fx.WakeAt
	for _, t := range fx.Txns {
		b.sent = append(b.sent, t.ID)
		b.events = append(b.events, coordinator.Outcome{Outcome: b.mem.Commit(t)})
	}
	if fx.Ask != nil {
		share, err := policy.ByName("share")
		if err != nil {
			panic(err)
		}
		out, err := allocator.Run(share, *fx.Ask)
		b.events = append(b.events, coordinator.Decided{Output: out, Err: err})
	}
	if fx.Reload && b.list.IsZero() {
		b.lists++
		b.list = b.now.Add(listEvery)
	}
	b.c.Census(b.now)
}

func (b *besieged) write(ops ...record.Op) {
	if o := b.mem.Commit(record.Txn{ID: "others", Then: ops}); o.Result != record.Applied {
		panic(fmt.Sprintf("others: %v: %v", ops, o.Err))
	}
}

// spoil makes some records wrong, and returns which.
func (b *besieged) spoil(rng *rand.Rand) []string {
	kvs, _ := b.mem.Range(record.Root)
	bad, touched := recordtest.Wrong(rng, kvs, 1+rng.IntN(6), clean)
	left := map[string]bool{}
	for _, kv := range bad {
		left[kv.Key] = true
		if was, ok := b.mem.Get(kv.Key); !ok || string(was.Value) != string(kv.Value) {
			b.write(record.Op{Key: kv.Key, Value: kv.Value})
		}
	}
	for _, kv := range kvs {
		if !left[kv.Key] {
			b.write(record.Delete(kv.Key))
		}
	}
	return touched
}

// besiege lets a leader loose on what a storm has left, with some of it made wrong:
// first as it finds it, then as it comes in.
func besiege(seed uint64) (b *besieged, touched []string) {
	rng := rand.New(rand.NewPCG(seed, 13))
	s := newStorm(seed, 0)
	s.run(time.Duration(1+rng.IntN(60))*time.Second, func() bool { return false })
	b = &besieged{mem: s.mem, now: s.clock()}
	kvs, _ := b.mem.Range(record.Root)
	for _, kv := range kvs {
		if strings.HasPrefix(kv.Key, record.LeaderPrefix) || kv.Key == record.PausedKey {
			b.write(record.Delete(kv.Key))
		}
	}
	b.write(
		record.Put(leaderKey(99), record.Leader{Node: "besieged"}),
		record.Put(record.AliveKey("clean"), record.Alive{Addr: "10.0.0.9", Ports: record.Ports{First: 7000, Count: 8}, Nonces: true}),
		record.Put(record.InventoryKey("clean"), record.Inventory{Devices: []cluster.Device{{ID: "cleana", Health: cluster.Healthy}}}),
	)
	spec := cluster.Spec{Name: "clean", Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c", Where: cluster.Where{Nodes: []cluster.NodeID{"clean"}}}
	spec.MaxWorkers, spec.Priority = 1, cluster.MaxPriority
	b.write(record.Put(record.RequestKey("clean", "r-clean"), record.Request{
		Kind: record.SubmitRequest, Job: "clean-aaaaaa", Spec: &spec, At: b.now, Owner: cluster.Owner{UID: 1000, User: "ann"},
	}))
	touched = b.spoil(rng)
	kv, _ := b.mem.Get(leaderKey(99))
	b.c = coordinator.New(coordinator.Config{
		Token: coordinator.Token{Key: kv.Key, Mod: kv.ModRevision}, Policy: "script", Timeless: true, Interval: 10 * time.Second, Timing: coordinator.DefaultTiming(), Secret: "x",
	})
	b.load()
	b.advance(20 * time.Second)
	for range 4 {
		touched = append(touched, b.spoil(rng)...)
		b.advance(time.Duration(1+rng.IntN(40)) * time.Second)
	}
	return b, touched
}

// Whatever others have written, a leader goes on, comes to rest, and leads the jobs
// and nodes whose records are sound.
func TestRecordsMadeWrong(t *testing.T) {
	for seed := range uint64(storms()) / 3 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b, touched := besiege(seed)
			state := recorded[record.State](b.mem, record.StateKey("clean-aaaaaa"))
			others, _ := b.mem.Range(record.NodePrefix("clean") + "grants/") // to which it was rightly given
			if state.Generation == 0 && len(others) == 0 {
				t.Errorf("the job whose records are sound: %+v; made wrong: %q", state, touched)
			}
			if b.lists > mostLists || len(b.sent) > mostSent {
				t.Errorf("%d listings and %d transactions: it never comes to rest: …%q; made wrong: %q", b.lists, len(b.sent), b.sent[len(b.sent)-3:], touched)
			}
		})
	}
}

// A record below a job without a name keeps a leader from nothing that concerns no job.
func TestJobWithoutANameHoldsNothingUp(t *testing.T) {
	t.Parallel()
	l := newLab()
	l.commit(record.Op{Key: record.StateKey(""), Value: []byte("?")})
	if err := l.userLimits(words{named: map[string]string{"live": "3"}}); err != nil {
		t.Fatal(err)
	}
	if got := recorded[record.Limits](l.mem, record.LimitsKey); got.LiveJobs != 3 {
		t.Errorf("the limits are not published: %+v", got)
	}
}

// A job in a phase that this version does not know, such as suspended, which early
// versions named, is left as it is, with what it holds, and keeps no other job from running.
func TestAPhaseThatIsUnknownIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := &besieged{mem: record.NewMemory(), now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	spec := cluster.Spec{Name: "known", Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c"}.WithDefaults()
	first := spec
	first.Name = "old"
	old := record.State{Phase: "suspended", Generation: 3, Since: b.now}
	b.write(
		record.Put(leaderKey(1), record.Leader{Node: "n1"}),
		record.Put(record.AliveKey("n1"), record.Alive{Addr: "10.0.0.9", Ports: record.Ports{First: 7000, Count: 8}, Nonces: true}),
		record.Put(record.InventoryKey("n1"), record.Inventory{Devices: []cluster.Device{{ID: "a", Health: cluster.Healthy}, {ID: "b", Health: cluster.Healthy}}}),
		record.Put(record.GrantKey("n1", "old-aaaaaa"), record.Grant{Generation: 3, Devices: []cluster.DeviceID{"a"}}),
		record.Put(record.SpecKey("old-aaaaaa"), record.Submitted{Spec: first, ID: "old-aaaaaa", At: b.now, Owner: cluster.Owner{UID: 1000, User: "ann"}}),
		record.Put(record.WantedKey("old-aaaaaa"), record.Wanted{Run: true}),
		record.Put(record.StateKey("old-aaaaaa"), old),
		record.Put(record.RequestKey("n1", "r-known"), record.Request{
			Kind: record.SubmitRequest, Job: "known-aaaaaa", Spec: &spec, At: b.now, Owner: cluster.Owner{UID: 1000, User: "ann"},
		}),
	)
	kv, _ := b.mem.Get(leaderKey(1))
	b.c = coordinator.New(coordinator.Config{
		Token: coordinator.Token{Key: kv.Key, Mod: kv.ModRevision}, Policy: "script", Timeless: true, Interval: 10 * time.Second, Timing: coordinator.DefaultTiming(), Secret: "x",
	})
	b.load()
	b.advance(time.Minute)
	if got := recorded[record.State](b.mem, record.StateKey("old-aaaaaa")); got.Phase != old.Phase || got.Generation != old.Generation {
		t.Errorf("the job in an unknown phase: %+v", got)
	}
	if got := recorded[record.Grant](b.mem, record.GrantKey("n1", "old-aaaaaa")); got.Generation != 3 {
		t.Errorf("what the job in an unknown phase holds is given to others: %+v", got)
	}
	if got := recorded[record.Grant](b.mem, record.GrantKey("n1", "known-aaaaaa")); !slices.Equal(got.Devices, []cluster.DeviceID{"b"}) {
		t.Errorf("the other job has %v, and should have what is free", got.Devices)
	}
	if len(b.sent) > mostSent {
		t.Errorf("%d transactions: it never comes to rest", len(b.sent))
	}
}

// A leader that does not come to rest by itself takes etcd's time from all others.
const (
	mostLists = 40
	mostSent  = 400
)

// FuzzRecord feeds a leader one record of any key and value.
func FuzzRecord(f *testing.F) {
	s := newStorm(3, 0)
	s.run(30*time.Second, func() bool { return false })
	kvs, _ := s.mem.Range(record.Root)
	for _, kv := range kvs {
		f.Add(strings.TrimPrefix(kv.Key, record.Root), kv.Value)
	}
	f.Fuzz(func(_ *testing.T, key string, value []byte) {
		m := record.NewMemory()
		for _, kv := range append(slices.Clone(kvs), record.KV{Key: record.Root + key, Value: value}) {
			m.Commit(record.Txn{Then: []record.Op{{Key: kv.Key, Value: kv.Value}}})
		}
		c := coordinator.New(coordinator.Config{Token: coordinator.Token{Key: leaderKey(1), Mod: 1}, Policy: "fuzz", Timeless: true, Interval: time.Second})
		all, revision := m.Range(record.Root)
		for i := range 3 {
			c.Step(s.clock().Add(time.Duration(i)*time.Minute), coordinator.Loaded{KVs: all, Revision: revision})
			c.Census(s.clock())
		}
	})
}

// Counts of a state that was written by hand may be negative: a wait is then the first.
func TestNegativeCountsAreNone(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{
		"restarts": "failed j n1 kind=worker rank=0 why=exit_status_1\nstopped j",
		"retries":  "failed j n1 kind=transient rank=-1 why=read_only\nstopped j",
	} {
		l := newLab()
		play(t, l, "node n1 gpus=1\nsubmit j workers=1..1 restarts=3\nstarted j")
		s := nowOf(l)
		s.Restarts, s.Retries, s.RoomWaits = -70, -70, -70
		l.commit(record.Put(record.StateKey("j-aaaaaa"), s))
		l.watch()
		play(t, l, last)
		if got := nowOf(l); got.Phase != cluster.Backoff || got.Next.Sub(got.Since) != coordinator.DefaultTiming().BackoffFirst {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A request about a node that names a job keeps to the order of those about nodes.
func TestARequestAboutANodeIsAboutNoJob(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, "node n1 gpus=1\nnode n2 gpus=1")
	l.answers()
	l.holding = true
	for i, n := range []cluster.NodeID{"n1", "n2"} {
		l.commit(record.Put(record.RequestKey("n1", fmt.Sprintf("d-%d", i)), record.Request{
			Kind: record.DrainRequest, Node: n, Job: jobID(string(n)), At: l.now, Owner: cluster.Owner{User: "root"},
		}))
	}
	l.watch()
	if n := len(l.waiting); n != 1 {
		t.Errorf("%d transactions that concern no job are in flight, want 1", n)
	}
}
