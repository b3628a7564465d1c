package coordinator_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// lab drives a coordinator against an etcd in memory: what it sends is
// committed at once, and what follows is fed back until nothing more does.
type lab struct {
	mem     *record.Memory
	now     time.Time
	c       *coordinator.Coordinator
	term    int
	watched int64 // revision that the coordinator has seen
	wake    time.Time
	want    map[cluster.JobID]int // what the policy answers
	onNode  map[cluster.JobID]cluster.NodeID
	lines   []string

	slow    *allocator.Input // a question that the policy still thinks about
	thinks  bool
	answer  string // what becomes of the next transactions: "lost", "late", "noreply", "conflict", "full"
	skip    int    // but for so many of them before
	delayed []record.Txn

	keep       int              // how many checkpoints, 0 = the default
	migrations int              // how many jobs a leader may move in an interval for others
	resumable  int              // how many jobs to be resumed, 0 = the default
	users      *record.Limits   // of each user; nil = none
	noPrivs    bool             // no job may gain rights
	policy     string           // its name; empty = script
	limit      int              // of operations in a transaction, 0 = etcd's own
	secret     string           // plans have nonces
	without    coordinator.Rule // of a leader with a secret
	events     bool             // they are written, and shown
	interval   time.Duration    // between decisions; 0 = 10 s
	timed      bool             // the policy's answers change with time
	real       allocator.Policy // that of the leader, which answers in place of the story
	prompt     bool             // the policy is asked when jobs and nodes come and go
	asked      allocator.Input  // the last question that was answered
	forecasts  bool             // what the next decision is told is shown
	limited    bool             // the story is about time limits: what jobs have run is shown
	holding    bool             // transactions and reloads wait for the test
	waiting    []record.Txn     // those that do
}

func newLab() *lab {
	l := &lab{mem: record.NewMemory(), now: dawn, want: map[cluster.JobID]int{}, onNode: map[cluster.JobID]cluster.NodeID{}}
	l.lead(0)
	return l
}

func leaderKey(term int) string { return fmt.Sprintf("%s%04x", record.LeaderPrefix, term) }

// lead begins a new term; the old leader's key goes first.
func (l *lab) lead(without coordinator.Rule) {
	if l.term > 0 {
		l.commit(record.Delete(leaderKey(l.term)))
	}
	l.term++
	key := leaderKey(l.term)
	l.commit(record.Put(key, record.Leader{Node: "lab", Since: l.now}))
	kv, _ := l.mem.Get(key)
	l.slow, l.wake = nil, time.Time{}
	l.c = coordinator.New(coordinator.Config{
		Token: coordinator.Token{Key: key, Mod: kv.ModRevision}, Policy: cmp.Or(l.policy, "script"), Timeless: !l.timed, Prompt: l.prompt, PromiseSizes: l.promiseSizes(),
		Interval: cmp.Or(l.interval, 10*time.Second), Timing: coordinator.DefaultTiming(), Without: without, MaxTxnOps: l.limit, Secret: l.secret, KeepCheckpoints: l.keep, KeepResumable: l.resumable, Migrations: l.migrations, Quiet: !l.events, Limits: l.users, NoNewPrivs: l.noPrivs,
	})
	l.reload()
}

func (l *lab) answers() []string {
	out := l.lines
	l.lines = nil
	return out
}

func (l *lab) say(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// commit writes as anybody but the leader does.
func (l *lab) commit(ops ...record.Op) {
	if o := l.mem.Commit(record.Txn{ID: "lab", Then: ops}); o.Result != record.Applied {
		panic(fmt.Sprintf("lab: %v: %v", ops, o.Err))
	}
}

func (l *lab) reload() {
	kvs, rev := l.mem.Range(record.Root)
	l.watched = rev
	l.step(coordinator.Loaded{KVs: kvs, Revision: rev})
}

// watch delivers what the coordinator has not seen yet.
func (l *lab) watch() {
	changes, err := l.mem.Changes(l.watched+1, record.Root)
	if err != nil {
		panic(err)
	}
	l.watched = l.mem.Revision()
	if len(changes) > 0 {
		l.step(coordinator.Changed{Changes: changes})
	}
}

func (l *lab) step(ev coordinator.Event) {
	fx := l.c.Step(l.now, ev)
	l.wake = fx.WakeAt
	for _, n := range fx.Notes {
		if n.Warn {
			l.say("warn %s", strings.TrimSpace(string(n.Job)+" "+n.Message()))
		}
	}
	for _, t := range fx.Txns {
		l.execute(t)
	}
	if fx.Ask != nil {
		l.slow = fx.Ask
		if !l.thinks {
			l.decide()
		}
	}
	if fx.Reload && !l.holding {
		l.say("reload")
		l.reload()
	}
	l.watch()
}

// execute commits a transaction and feeds its outcome back, or whatever else the story wants to become of it.
func (l *lab) execute(t record.Txn) {
	if l.holding {
		l.waiting = append(l.waiting, t)
		return
	}
	fate := ""
	if l.skip--; l.skip < 0 {
		fate, l.answer = l.answer, ""
	}
	if fate != "" {
		l.say("%s: %s", fate, l.describe(t))
	} else {
		l.say("%s", l.describe(t))
	}
	o := record.Outcome{ID: t.ID, Result: record.Unknown, Err: errors.New("deadline exceeded")}
	switch fate {
	case "": // as it should be
		if o = l.mem.Commit(t); o.Result != record.Applied {
			l.say("%s", o.Result)
		}
	case "conflict":
		o = record.Outcome{ID: t.ID, Result: record.Conflict}
	case "full": // etcd has no room for it
		o = record.Outcome{ID: t.ID, Result: record.Conflict, Err: errors.New("mvcc: database space exceeded")}
	case "noreply": // it was applied, and the reply is lost
		l.mem.Commit(t)
	case "late": // it arrives after everything that follows
		l.delayed = append(l.delayed, t)
	case "lost":
	}
	l.step(coordinator.Outcome{Outcome: o})
}

// decide lets the policy answer.
func (l *lab) decide() {
	in := *l.slow
	l.slow, l.asked = nil, in
	policy := l.real
	if policy == nil {
		policy = scripted{l.want, l.onNode}
	}
	out, err := allocator.Run(policy, in)
	if err == nil {
		var parts []string
		for _, d := range out.Decisions {
			parts = append(parts, fmt.Sprintf("%s=%d", d.Job, d.Workers))
		}
		kind := "decided"
		if in.Between {
			kind = "decided between"
		}
		l.say("%s %s", kind, strings.Join(parts, " "))
		l.sayForecasts(in)
	}
	l.step(coordinator.Decided{Output: out, Err: err})
}

// promiseSizes are those that the leader's policy plans promises with; nil if it has none.
func (l *lab) promiseSizes() func([]int) []int {
	if p, ok := l.real.(allocator.Promising); ok {
		return p.PromiseSizes
	}
	return nil
}

// advance lets time pass, with every alarm in it.
func (l *lab) advance(by time.Duration) {
	end := l.now.Add(by)
	for range 10_000 {
		if l.wake.IsZero() || l.wake.After(end) {
			l.now = end
			return
		}
		l.now = l.wake
		l.say("at +%s", l.now.Sub(dawn))
		l.step(coordinator.Tick{})
	}
	panic("lab: the alarms never end")
}

// scripted answers what the story wants, and the smallest size where it says nothing.
type scripted struct {
	want map[cluster.JobID]int
	on   map[cluster.JobID]cluster.NodeID
}

func (scripted) Name() string { return "script" }

func (s scripted) Allocate(in allocator.Input) allocator.Output {
	usable := map[cluster.DeviceID]bool{}
	for _, n := range in.Nodes {
		for _, d := range n.Usable() {
			usable[d] = true
		}
	}
	counts := make([]int, len(in.Jobs))
	keep := func(j allocator.JobView) bool {
		stay := in.Between || j.Pinned || j.Finishing() || j.Workers == s.want[j.ID] || s.want[j.ID] == 0 && j.Workers == j.Sizes[0]
		return j.Workers > 0 && stay && exists(in, j)
	}
	for i, j := range in.Jobs {
		if keep(j) {
			counts[i] = j.Workers
			for _, p := range j.Present.Placements {
				for _, d := range p.Devices {
					delete(usable, d)
				}
			}
		}
	}
	free := len(usable)
	var out allocator.Output
	for i, j := range in.Jobs {
		d := allocator.Decision{Job: j.ID, Workers: counts[i]}
		if keep(j) && j.Staying > 0 && !in.Between && !j.Pinned && !j.Finishing() {
			d.BatchSize = j.BatchFor(j.Workers)
		}
		if !keep(j) {
			d.Workers = s.choose(j, free)
			free -= d.Workers
			if d.Workers == 0 {
				d.Reason = fmt.Sprintf("%d devices are left", free)
			}
		}
		if d.Workers > 0 {
			d.Node = s.on[j.ID]
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out
}

func (s scripted) choose(j allocator.JobView, free int) int {
	want, ok := s.want[j.ID]
	if !ok {
		want = j.Sizes[0]
	}
	best := 0
	for _, size := range j.Sizes {
		if size <= want && size <= free {
			best = size
		}
	}
	return best
}

func exists(in allocator.Input, j allocator.JobView) bool {
	have := map[cluster.DeviceID]bool{}
	for _, n := range in.Nodes {
		for _, d := range n.Devices {
			have[d.ID] = true
		}
	}
	for _, p := range j.Present.Placements {
		for _, d := range p.Devices {
			if !have[d] {
				return false
			}
		}
	}
	return true
}
