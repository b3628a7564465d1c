package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// world is one run.
type world struct {
	cfg Config
	agenda
	now    time.Duration
	store  *record.Memory
	leader *coordinator.Coordinator
	nodes  []*node
	jobs   []*job
	open   []*job // submitted; those that have ended leave at the next report
	byID   map[cluster.JobID]*job

	inbox     []coordinator.Event // what the leader has not taken in yet
	mirror    *record.Mirror      // what the agents read
	read      []record.Kind       // of which kinds
	soon      []func()            // what the agents do at this moment
	fresh     []record.Change     // and what the watch has seen of others' writes
	wake      time.Duration       // when it wants a Tick; 0 = not
	ended     int
	idle      int   // how often in a row time has passed and nothing happened
	txns      int   // transactions when that began
	compacted int64 // revision before which the store has no history
	rules     *conventions
	eventful  bool          // a job has come or gone at this moment
	came      []*job        // at this moment
	saw       time.Duration // when what came or ended was last seen
	err       error         // why the run cannot go on
	prompt    bool          // the policy may be asked at any event (allocator.IsPrompt)
	reported  time.Duration // when agents last gave their word
	log       journal
	spread    *spread
	result    Result
}

// zero is the moment at which virtual time begins. It only has to differ from time.Time's own zero.
var zero = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	leaderKey = record.LeaderPrefix + "sim"
	// historyKept bounds the store's history; no reader here needs it twice.
	historyKept = 1 << 12
	// patience is how many Ticks in a row may lead to nothing, with nothing else
	// to come, before the run is given up: the leader may ask for them for ever.
	patience = 1000
	// mostSteps is how often the leader may step at one moment before the run is
	// given up: something goes in a circle.
	mostSteps = 1 << 20
)

// Run runs one simulation to its end.
func Run(cfg Config) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, fmt.Errorf("simulate: %w", err)
	}
	return newWorld(cfg).run()
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, store: record.NewMemory(), byID: make(map[cluster.JobID]*job, len(cfg.Jobs)), log: newJournal(cfg.Log), spread: newSpread(cfg)}
	w.store.MaxTxnOps = 1 << 20
	mirror, err := record.NewMirror(nil, 0)
	if err != nil {
		panic("sim: an empty mirror: " + err.Error())
	}
	w.mirror, w.read = mirror, readByAgents()
	return w
}

func (w *world) run() (Result, error) {
	w.begin()
	for {
		if err := w.deliver(); err != nil {
			return Result{}, err
		}
		w.foretell()
		if w.err != nil {
			return Result{}, w.err
		}
		if w.cfg.Check != nil {
			if err := w.cfg.Check(); err != nil {
				return Result{}, fmt.Errorf("simulate: at %v: %w", w.now, err)
			}
		}
		if w.ended == len(w.jobs) {
			return w.finish(), nil
		}
		if !w.proceed() {
			return Result{}, fmt.Errorf("simulate: at %v nothing more would happen, and %d jobs have not ended: %s",
				w.now, len(w.jobs)-w.ended, w.stranded())
		}
		for {
			do, ok := w.due(w.now)
			if !ok {
				break
			}
			do()
			w.react()
		}
		w.charge()
		switch {
		case w.rules != nil:
			w.rules.instant(w)
			w.report()
		case w.wake > 0 && w.wake <= w.now, (w.prompt || w.cfg.Promise || w.cfg.Foretell) && w.now >= w.reported+reportEvery:
			w.report()
		}
	}
}

// begin puts the cluster and all that is known of the future in place.
func (w *world) begin() {
	out := w.store.Commit(record.Txn{Then: []record.Op{record.Put(leaderKey, record.Leader{Node: "sim"})}})
	w.saw = -w.cfg.Terms.Apart // nothing was seen yet
	w.prompt = w.cfg.Policy != nil && allocator.IsPrompt(w.cfg.Policy)
	cfg := w.leaderConfig()
	cfg.Token = coordinator.Token{Key: leaderKey, Mod: out.Revision}
	w.leader = coordinator.New(cfg)
	for i := range w.cfg.Nodes {
		w.addNode(i)
	}
	for i, j := range w.cfg.Jobs {
		x := &job{Job: j, id: jobID(i), index: i, ruled: w.cfg.Rules != nil}
		w.jobs = append(w.jobs, x)
		w.byID[x.id] = x
		w.at(w.cfg.Terms.seen(j.Submit), func() { w.seeing(func() { w.submit(x) }) })
	}
	for _, f := range w.cfg.Failures {
		w.at(f.At, func() { w.lose(w.nodes[f.Node], f.For) })
	}
	if w.cfg.Rules != nil {
		w.rules = newConventions(w.cfg.Rules, w.cfg.Jobs)
	}
	kvs, revision := w.store.Range(record.Root)
	w.fresh = nil
	w.inbox = append(w.inbox, coordinator.Loaded{KVs: kvs, Revision: revision})
}

// leaderConfig is what the coordinator is told.
func (w *world) leaderConfig() coordinator.Config {
	timing := coordinator.DefaultTiming()
	if !w.cfg.Foretell {
		timing.Retention, timing.Resumable = 0, 0 // what has ended is not looked at
	}
	name := "rules"
	if w.cfg.Policy != nil {
		name = w.cfg.Policy.Name()
	}
	return coordinator.Config{
		MaxTxnOps: w.store.MaxTxnOps, Policy: name, Interval: w.cfg.Interval, Timing: timing, Quiet: true, Migrations: w.cfg.Migrations,
		Prompt: w.prompt, Unanswered: !w.cfg.Promise, PromiseSizes: w.promiseSizes(),
		// Policies are asked at each interval's end, timeless or not, as published figures are of
		// that; rules say themselves when there is something to ask.
		Timeless:   w.cfg.Rules != nil,
		Unmeasured: w.cfg.Know.all() || w.cfg.Rules != nil,
	}
}

// proceed moves the clock to when something happens next.
func (w *world) proceed() bool {
	t, ok := w.next()
	if w.idle++; ok || w.txns != w.result.Txns {
		w.idle, w.txns = 0, w.result.Txns
	}
	if w.idle > patience {
		return false
	}
	if w.wake > 0 && (!ok || w.wake < t) {
		t, ok = w.wake, true
	}
	if ok {
		w.spread.pass(t - w.now)
		w.store.Advance(t - w.now)
		w.now = t
	}
	return ok
}

// deliver gives the leader all events of this moment, and does what it says, until no more follow.
func (w *world) deliver() error {
	for range mostSteps {
		events := w.inbox
		w.inbox = nil
		if len(w.fresh) > 0 {
			events = append(events, coordinator.Changed{Changes: w.fresh})
			w.fresh = nil
		}
		switch {
		case len(events) > 0:
			w.step(events...)
		case w.wake > 0 && w.wake <= w.now:
			w.step(coordinator.Tick{})
		default:
			if w.rules != nil {
				return w.rules.check(w)
			}
			return nil
		}
	}
	return fmt.Errorf("simulate: at %v the coordinator finds no end: %s", w.now, w.stranded())
}

// forgetHistory bounds the store's history, which everyone has read.
func (w *world) forgetHistory() {
	if w.store.Revision() < w.compacted+historyKept {
		return
	}
	w.compacted = w.store.Revision()
	if err := w.store.Compact(w.compacted); err != nil {
		panic("sim: " + err.Error())
	}
}

// step tells the leader what has happened and does what follows.
func (w *world) step(events ...coordinator.Event) {
	w.result.Steps++
	w.forgetHistory()
	fx := w.leader.Step(zero.Add(w.now), events...)
	w.wake = 0
	if !fx.WakeAt.IsZero() {
		w.wake = fx.WakeAt.Sub(zero)
	}
	for _, n := range fx.Notes {
		w.note(n)
	}
	for _, t := range fx.Txns {
		before := w.store.Revision()
		out := w.store.Commit(t)
		w.result.Txns++
		w.inbox = append(w.inbox, coordinator.Outcome{Outcome: out})
		if out.Result != record.Applied {
			w.log.explain(w.now, fmt.Sprintf("%s: %v", t.ID, out.Err), codeRefused)
			continue
		}
		for _, op := range t.Then {
			w.obey(op)
		}
		w.spread.take(w, t.Then)
		w.seen(before)
		w.react()
	}
	if fx.Ask != nil {
		w.inbox = append(w.inbox, w.decide(*fx.Ask))
	}
	if fx.Reload {
		kvs, revision := w.store.Range(record.Root)
		w.inbox = append(w.inbox, coordinator.Loaded{KVs: kvs, Revision: revision})
	}
}

// write is what others than the leader do to the store; the leader hears of it by its watch.
func (w *world) write(ops ...record.Op) {
	if out := (outside{w}).Commit(record.Txn{Then: ops}); out.Err != nil {
		panic("sim: " + out.Err.Error())
	}
	w.react()
}

// note takes in a line of the leader's log.
func (w *world) note(n coordinator.Note) {
	j := w.byID[n.Job]
	if j == nil || n.Phase == "" {
		w.log.explain(w.now, n.Message(), codeNote, n.Job)
		return
	}
	w.log.explain(w.now, n.Message(), codePhase, j.ID, n.Gen, n.Phase)
	j.phase = n.Phase
	if n.Phase.Terminal() && j.ended == 0 {
		j.ended = w.now
		if n.Phase == cluster.Succeeded && j.ends > 0 {
			j.ended = j.ends
		}
		w.ended++
		if j.waitsSince >= 0 {
			j.waited += w.now - j.waitsSince
			j.waitsSince = -1
		}
		if w.cfg.Progress != nil {
			w.cfg.Progress(w.ended, len(w.jobs))
		}
	}
}

// promiseSizes are those with which the policy lets promises be planned; nil if it promises none.
func (w *world) promiseSizes() func([]int) []int {
	if p, ok := w.cfg.Policy.(allocator.Promising); ok && w.cfg.Promise {
		return p.PromiseSizes
	}
	return nil
}

// stranded names a few jobs that have not ended, and where they are.
func (w *world) stranded() string {
	var names []string
	for _, j := range w.jobs {
		if !j.phase.Terminal() && len(names) < 5 {
			names = append(names, fmt.Sprintf("%s (%s)", j.ID, j.phase))
		}
	}
	return strings.Join(names, ", ")
}
