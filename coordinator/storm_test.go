package coordinator_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// storm is a small cluster in virtual time in which everything goes wrong that
// the protocol promises to survive: leaders that die, freeze or do not notice
// that they were deposed; transactions whose answers are lost or that arrive
// late; news that is dropped, repeated and out of order; agents that die, nodes
// that are cut off or lost, leases revoked early, workers that fail. Agents are
// honest: they do what protocol and permit allow. The invariants are checked at
// every revision, and whenever a worker is executed.
type storm struct {
	rng     *rand.Rand
	without coordinator.Rule
	ops     int  // that the leaders take for what etcd takes in a transaction
	wild    bool // news is dropped, repeated and reordered
	lossy   bool // it was so for a time
	alone   bool // the first node is, for a time
	brief   bool // what has ended is kept for minutes, and one job at most to be resumed
	moving  int  // how many jobs the leaders may move in an interval for others
	grouped bool // a node's devices are in groups of two
	calm    bool // nothing goes wrong any more

	now    time.Duration
	agenda agenda
	serial int

	mem     *record.Memory
	mirror  *record.Mirror // of what is in etcd this moment
	seen    int64
	nodes   []*simNode
	leaders []*simLeader
	jobs    map[cluster.JobID]*simJob
	damaged map[record.Checkpoint]bool
	stuck   map[*machine.Shim]bool         // whose workers do not die
	lost    map[string]bool                // nonces of plans that a restore of etcd has lost
	unborn  map[cluster.JobID]bool         // jobs of which nothing is known since
	epoch   int                            // how often etcd was restored
	charged map[cluster.JobID]record.State // the state of each job as it was last
	skewed  bool                           // leaders' clocks differ by minutes
	halted  map[record.JobGen]time.Duration
	worlds  map[string]*ranks        // what the workers of each generation do
	passes  map[string]time.Duration // when what a node has failed of is over, by node and generation
	told    map[uint64]bool          // numbers of events
	tally   tally                    // what it did
	counted map[string]bool          // of what is counted once
	faults  []string                 // broken invariants
	trail   []string
	warm    *rand.Rand
}

// simJob is what a job's script is like.
type simJob struct {
	sdk   bool
	steps int64 // it exits 0 after so many
	saves bool  // a halt ends with a checkpoint
	loose bool  // its nodes do not wait for each other: each takes its steps by itself
	// hungry is the largest world in which its workers run out of memory.
	hungry int
	// All bounds that it ever had lie within these.
	least, most int
}

// fewOps is so few that a START on several nodes does not fit into one transaction.
const fewOps = 7

// aboutParked are the rules about what is prepared: without any other the storms prepare nothing, so that they go
// as they did before.
const aboutParked = coordinator.ParkedOver | coordinator.ParkedKnown

const stepTime = 250 * time.Millisecond

func newStorm(seed uint64, without coordinator.Rule) *storm {
	s := &storm{
		rng: rand.New(rand.NewPCG(seed, 7)), without: without, mem: record.NewMemory(), jobs: map[cluster.JobID]*simJob{},
		damaged: map[record.Checkpoint]bool{}, halted: map[record.JobGen]time.Duration{}, told: map[uint64]bool{}, tally: tally{},
		stuck: map[*machine.Shim]bool{}, lost: map[string]bool{}, unborn: map[cluster.JobID]bool{}, charged: map[cluster.JobID]record.State{},
		worlds: map[string]*ranks{}, counted: map[string]bool{}, passes: map[string]time.Duration{},
	}
	s.warm = rand.New(rand.NewPCG(seed, 11)) // of its own, so that the rest goes as it would without
	s.wild = seed%2 == 1
	s.lossy = s.wild
	s.brief = seed%5 == 2
	s.skewed = seed%4 == 3 && !s.brief
	s.moving, s.grouped = int(min(seed%7, 2)), seed%7 > 3
	if seed%3 == 0 {
		s.mem.MaxTxnOps, s.ops = coordinator.LeastTxnOps, fewOps
	}
	mirror, err := record.NewMirror(nil, 0)
	if err != nil {
		panic(err)
	}
	s.mirror = mirror
	alone := time.Duration(0) // for so long the first node is
	if seed%4 == 1 {
		alone, s.alone = s.between(5*time.Second, 25*time.Second), true
	}
	for i := range 2 + s.rng.IntN(3) {
		n := s.newNode(cluster.NodeID(fmt.Sprintf("n%d", i+1)))
		for k := range 1 << s.rng.IntN(3) {
			d := cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s%c", n.Node, 'a'+k)), Health: cluster.Healthy}
			if s.grouped {
				d.Group = fmt.Sprint(k / 2)
			}
			n.Devices = append(n.Devices, d)
		}
		s.nodes = append(s.nodes, n)
		first := s.between(0, time.Second)
		if i > 0 {
			first += alone
		}
		s.at(first, func() {
			if !n.scrapped { // before it ever came
				n.PowerOn()
			}
			s.tick(n)
		})
	}
	if alone > 0 { // and it does not see that others come
		s.at(alone-time.Second, func() { s.cut(s.nodes[0], s.between(25*time.Second, 45*time.Second)) })
	}
	s.at(0, s.elect)
	for i := range 3 + s.rng.IntN(3) {
		s.at(s.between(0, 20*time.Second), func() { s.submit(i) })
	}
	s.at(s.between(0, 5*time.Second), s.misfortune)
	return s
}

// at schedules f.
func (s *storm) at(after time.Duration, f func()) {
	s.serial++
	heap.Push(&s.agenda, appointment{s.now + after, s.serial, f})
}

func (s *storm) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

func (s *storm) chance(percent int) bool { return s.rng.IntN(100) < percent }

func (s *storm) clock() time.Time { return dawn.Add(s.now) }

// run lets time pass until then, or until an invariant is broken, or enough says so.
func (s *storm) run(until time.Duration, enough func() bool) {
	for len(s.agenda) > 0 && s.agenda[0].at <= until && len(s.faults) == 0 && !enough() {
		next, ok := heap.Pop(&s.agenda).(appointment)
		if !ok {
			panic("storm: not an appointment")
		}
		s.now = next.at
		s.mem.Advance(s.now - s.mem.Elapsed())
		s.observe()
		next.do()
		s.observe()
	}
}

// observe checks what is new in etcd and spreads it among the leaders.
func (s *storm) observe() {
	changes, err := s.mem.Changes(s.seen+1, record.Root)
	if err != nil {
		panic(err)
	}
	s.seen = s.mem.Revision()
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].ModRevision == changes[0].ModRevision {
			n++
		}
		s.revision(changes[:n])
		changes = changes[n:]
	}
}

func (s *storm) revision(changes []record.Change) {
	before := map[cluster.JobID]record.Versioned[record.Checkpoint]{}
	for id, v := range s.mirror.Jobs {
		before[id] = v.Committed
	}
	for _, c := range changes {
		if _, err := s.mirror.Apply(c); err != nil {
			s.fault("%v", err)
		}
	}
	s.watchNodes()
	for _, c := range changes {
		s.check(c, before)
		s.count(c)
	}
	s.checkGrants()
	for _, l := range s.leaders {
		l.hear(changes)
	}
}

func (s *storm) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf("+%v: ", s.now)+fmt.Sprintf(format, args...))
}

func (s *storm) note(format string, args ...any) {
	s.trail = append(s.trail, fmt.Sprintf("+%v: ", s.now)+fmt.Sprintf(format, args...))
}

// submit is a user's.
func (s *storm) submit(i int) {
	sizes := [][2]int{{1, 1}, {1, 4}, {2, 2}, {2, 8}, {4, 4}, {1, 2}}
	size := sizes[s.rng.IntN(len(sizes))]
	id := jobID(string(rune('p' + i)))
	s.jobs[id] = &simJob{sdk: s.chance(60), steps: int64(20 + s.rng.IntN(300)), saves: s.chance(80), loose: s.chance(30), least: size[0], most: size[1]}
	spec := cluster.Spec{
		Name: string(rune('p' + i)), Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c", MaxRestarts: 5,
		MinWorkers: size[0], MaxWorkers: size[1], BatchSize: cluster.BatchSize{Min: 64}, HaltTimeout: cluster.Duration(15 * time.Second),
		ColdStart: s.without&^aboutParked != 0 || s.warm.IntN(100) >= 60,
		Steps:     400, ETA: cluster.Duration(time.Hour), // so that policies learn what is left
	}
	s.write(record.Put(record.RequestKey(s.nodes[0].Node, "r-"+string(id)), record.Request{
		Kind: record.SubmitRequest, Job: id, Spec: &spec, At: s.clock(), Owner: cluster.Owner{UID: 1000, User: "ann"},
	}))
}

// write commits as an agent does, for users and for itself.
func (s *storm) write(ops ...record.Op) int64 {
	o := s.mem.Commit(record.Txn{ID: "storm", Then: ops})
	if o.Result != record.Applied {
		panic(fmt.Sprintf("storm: write %v: %v", ops, o.Err))
	}
	return o.Revision
}

// appointment is something that happens at a time.
type appointment struct {
	at     time.Duration
	serial int
	do     func()
}

// agenda is a heap by time, then order of scheduling.
type agenda []appointment

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(appointment)) }

func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].serial < a[j].serial
}

func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// over reports whether every job has ended, or can go on by its owner's word only.
func (s *storm) over() bool {
	ended := 0
	for id := range s.unborn {
		if !s.mirror.Job(id).Spec.Exists() {
			ended++
		}
	}
	for _, id := range s.mirror.JobIDs() {
		v := s.mirror.Job(id)
		if v.State.Value.Phase.Terminal() || v.State.Value.Phase == cluster.Held && !v.Committed.Exists() && len(v.Bad) > 0 {
			ended++
		}
	}
	return ended == len(s.jobs)
}

// rest ends all misfortunes: every node is whole and can be reached, or removed.
func (s *storm) rest() {
	s.calm, s.wild = true, false
	s.note("calm")
	s.unpause()
	s.release()
	for _, n := range s.nodes {
		if n.scrapped {
			s.discard(n)
			continue
		}
		n.PowerOn()
		n.StartAgent()
		s.cut(n, 0)
		n.misread = false
		for i := range n.Devices {
			n.Devices[i].Health = cluster.Healthy
		}
		if _, ok := s.mem.Get(record.CordonKey(n.Node)); ok {
			s.write(record.Delete(record.CordonKey(n.Node)))
		}
	}
	for _, l := range s.leaders {
		if l.active {
			s.at(0, l.list) // whatever it has missed
		}
	}
}
