package coordinator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// simLeader is one term, and perhaps what goes on after it: a leader that does
// not notice that it was deposed keeps sending.
type simLeader struct {
	s      *storm
	core   *coordinator.Coordinator
	twin   *coordinator.Coordinator // that looks at every job each time, and must say the same
	held   []coordinator.Event      // come, and not yet handed over
	token  coordinator.Token
	lease  int64
	active bool
	frozen time.Duration // until then it does nothing, not even renew its lease
	last   time.Duration // when its news so far will have arrived, if that comes in order
	alarm  int           // number of the newest alarm; older ones are void
	lists  int           // listings under way
	skew   time.Duration // of its clock
	led    bool          // it has asked a full question
	epoch  int           // of etcd that it watches: a restore ends the watch, until everything is listed
	slept  bool          // while etcd was restored
}

func (l *simLeader) clock() time.Time { return l.s.clock().Add(l.skew) }

const (
	leaderTTL = 4 * time.Second
	askEvery  = 3 * time.Second
)

// elect makes a leader when there is none.
func (s *storm) elect() {
	defer s.at(300*time.Millisecond, s.elect)
	if kvs, _ := s.mem.Range(record.LeaderPrefix); len(kvs) > 0 {
		return
	}
	if len(s.leaders) > 0 {
		s.did("takeover")
		switch last := s.leader(); {
		case !last.active:
			s.did("leader died")
		case s.now < last.frozen:
			s.did("leader frozen out")
		default:
			s.did("leader deposed unawares")
		}
	}
	l := &simLeader{s: s, active: true, epoch: s.epoch, lease: s.mem.Grant(leaderTTL)}
	if s.skewed {
		l.skew = s.between(-3*time.Minute, 3*time.Minute)
	}
	l.token.Key = leaderKey(len(s.leaders) + 1)
	l.token.Mod = s.write(record.PutLeased(l.token.Key, record.Leader{Node: "storm"}, l.lease))
	cfg := coordinator.Config{
		MaxTxnOps: s.ops, Migrations: s.moving, Token: l.token, Secret: fmt.Sprintf("term %d", len(s.leaders)), Policy: "storm", Interval: askEvery, Timing: coordinator.DefaultTiming(), Without: s.without,
	}
	if s.brief {
		cfg.Timing.Retention, cfg.Timing.Resumable, cfg.KeepResumable = 3*time.Minute, 6*time.Minute, 1
	}
	l.core = coordinator.New(cfg)
	cfg.NoCache = true
	l.twin = coordinator.New(cfg)
	s.note("leader %d", len(s.leaders)+1)
	s.leaders = append(s.leaders, l)
	l.renew()
	l.list()
	l.refresh()
}

func (l *simLeader) renew() {
	if !l.active {
		return
	}
	if l.s.now >= l.frozen {
		_ = l.s.mem.KeepAlive(l.lease) // deposed: it will not notice
	}
	l.s.at(time.Second, l.renew)
}

// refresh lists again now and then, which mends what was dropped.
func (l *simLeader) refresh() {
	l.s.at(5*time.Second, func() {
		if l.active && l.s.wild {
			l.list()
		}
		if l.active {
			l.refresh()
		}
	})
}

// do schedules something that the leader does, once it is not frozen.
func (l *simLeader) do(after time.Duration, f func()) {
	l.s.at(after, func() {
		switch {
		case !l.active:
		case l.s.now < l.frozen:
			l.do(l.frozen-l.s.now, f)
		default:
			f()
		}
	})
}

// hear delivers one revision's changes.
func (l *simLeader) hear(changes []record.Change) {
	if !l.active || l.epoch != l.s.epoch {
		return
	}
	s := l.s
	ev, epoch := coordinator.Changed{Changes: changes}, s.epoch
	arrive := func() {
		if epoch == s.epoch { // else the watch has ended, and everything is listed again
			l.step(ev)
		}
	}
	if !s.wild {
		l.last = max(l.last, s.now+s.between(0, 100*time.Millisecond))
		l.do(l.last-s.now, arrive)
		return
	}
	if s.chance(4) {
		s.did("news dropped")
		return
	}
	l.do(s.between(0, 400*time.Millisecond), arrive)
	if s.chance(6) {
		s.did("news repeated")
		l.do(s.between(0, 3*time.Second), arrive)
	}
}

// list reads everything; what happens until the listing is there follows it.
func (l *simLeader) list() {
	if l.lists++; l.lists > 1 {
		return
	}
	s := l.s
	l.do(s.between(0, 100*time.Millisecond), func() {
		kvs, rev := s.mem.Range(record.Root)
		epoch := s.epoch
		l.do(s.between(0, 200*time.Millisecond), func() {
			again := l.lists > 1
			if l.lists = 0; epoch != s.epoch {
				l.list()
				return
			}
			s.did("listing")
			l.epoch = epoch
			l.step(coordinator.Loaded{KVs: kvs, Revision: rev})
			if missed, err := s.mem.Changes(rev+1, record.Root); err == nil && len(missed) > 0 {
				l.step(coordinator.Changed{Changes: missed})
			}
			if again {
				l.list()
			}
		})
	})
}

// step hands an event over, often with others that come a moment later.
func (l *simLeader) step(ev coordinator.Event) {
	l.held = append(l.held, ev)
	switch {
	case len(l.held) > 1: // those before wait already
	case l.s.chance(30):
		l.s.did("events together")
		l.do(l.s.between(0, 50*time.Millisecond), l.handOver)
	default:
		l.handOver()
	}
}

func (l *simLeader) handOver() {
	s, events := l.s, l.held
	l.held = nil
	fx := l.core.Step(l.clock(), events...)
	if twin := l.twin.Step(l.clock(), events...); !reflect.DeepEqual(fx, twin) {
		s.fault("what was derived before differs from what is derived anew: %+v instead of %+v", fx, twin)
	}
	for _, t := range fx.Txns {
		if l.slept && l.epoch != s.epoch {
			s.did("thawed leader goes by a lost timeline")
		}
		l.send(t)
	}
	if fx.Ask != nil {
		in := *fx.Ask
		l.countQuestion(in)
		l.do(s.between(10*time.Millisecond, 2*time.Second), func() { l.step(s.decide(in)) })
	}
	if fx.Reload {
		l.do(200*time.Millisecond, l.list)
	}
	l.alarm++
	if alarm := l.alarm; !fx.WakeAt.IsZero() {
		l.do(fx.WakeAt.Sub(l.clock()), func() {
			if alarm == l.alarm {
				l.step(coordinator.Tick{})
			}
		})
	}
}

// send is a transaction's way to etcd and its answer's way back.
func (l *simLeader) send(t record.Txn) {
	s := l.s
	way, back := s.between(time.Millisecond, 80*time.Millisecond), s.between(time.Millisecond, 80*time.Millisecond)
	unknown := func() {
		l.step(coordinator.Outcome{Outcome: record.Outcome{ID: t.ID, Result: record.Unknown, Err: errors.New("deadline exceeded")}})
	}
	switch fate := s.rng.IntN(100); {
	case s.calm || fate >= 9: // all is well
		s.at(way, func() {
			o := l.commit(t)
			l.do(back, func() { l.step(coordinator.Outcome{Outcome: o}) })
		})
	case fate < 3: // it gets lost
		s.did("transaction lost")
		l.do(2*time.Second, unknown)
	case fate < 6: // its answer gets lost
		s.did("answer lost")
		s.at(way, func() { l.commit(t) })
		l.do(2*time.Second, unknown)
	default: // it arrives long after it was given up
		s.did("transaction late")
		l.do(time.Second, unknown)
		s.at(s.between(time.Second, 10*time.Second), func() { l.commit(t) })
	}
}

// commit executes a leader's transaction. It may land only while the leader's key is there.
func (l *simLeader) commit(t record.Txn) record.Outcome {
	kv, ok := l.s.mem.Get(l.token.Key)
	o := l.s.mem.Commit(t)
	if o.Err != nil {
		l.s.fault("%s cannot be carried out: %v", t.ID, o.Err)
	}
	deposed := !ok || kv.ModRevision != l.token.Mod
	switch verb, _, _ := strings.Cut(t.ID, " "); {
	case o.Result == record.Applied:
		l.s.did("txn " + verb)
	case deposed:
		l.s.did("stale leader refused")
	case l.lostGrants(t):
		l.s.did("grants of a lost timeline refused")
	default:
		l.s.did("overtaken write refused")
	}
	if o.Result == record.Applied {
		l.s.note("%s", describe(t, l.s.clock()))
		if deposed {
			l.s.fault("I10: a deposed leader's %s was applied", t.ID)
		}
		// Several deletions may follow in this moment; each revision is checked by itself.
		l.s.observe()
	}
	return o
}

// lostGrants reports whether a transaction compares what was granted in a timeline that
// a restore of etcd has ended.
func (l *simLeader) lostGrants(t record.Txn) bool {
	kv, _ := l.s.mem.Get(record.GrantedKey)
	return slices.ContainsFunc(t.If, func(c record.Compare) bool {
		return c.Key == record.GrantedKey && (c.Relation == record.AtLeast && kv.ModRevision < c.Revision || c.Relation == record.Before && kv.ModRevision >= c.Revision)
	})
}

// decide answers as share does, or at whim, or not at all.
func (s *storm) decide(in allocator.Input) coordinator.Decided {
	var p allocator.Policy = whim{}
	if s.calm || in.Seed%3 == 0 {
		share, err := policy.ByName("share")
		if err != nil {
			panic(err)
		}
		p = share
	}
	out, err := allocator.Run(p, in)
	if err != nil {
		s.did("policy refused")
	}
	if err != nil && !strings.Contains(err.Error(), "of policy whim") {
		s.fault("%v", err)
	}
	return coordinator.Decided{Output: out, Err: err}
}

// whim is a policy without reason: any size that the rules allow, and sometimes one that they do not.
type whim struct{}

func (whim) Name() string { return "whim" }

func (whim) Allocate(in allocator.Input) allocator.Output {
	rng := rand.New(rand.NewPCG(in.Seed, uint64(len(in.Jobs))))
	want := scripted{want: nil}
	want.want = make(map[cluster.JobID]int, len(in.Jobs))
	for _, j := range in.Jobs {
		want.want[j.ID] = j.Sizes[rng.IntN(len(j.Sizes))]
		if rng.IntN(6) == 0 {
			want.want[j.ID] = -1 // none
		}
	}
	out := want.Allocate(in)
	if rng.IntN(20) == 0 {
		out.Decisions[0].Workers = 3
	}
	return out
}
