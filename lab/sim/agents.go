package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/lab/trace"
	"github.com/bellows-ml/bellows/record"
)

// node is a machine of the simulated cluster. Its agent is the real one.
type node struct {
	*machine.Machine
	index int
}

// addNode brings a node into the cluster for the first time.
func (w *world) addNode(index int) {
	id := cluster.NodeID(fmt.Sprintf("n%05d", index))
	n := &node{index: index, Machine: machine.New(machine.Config{
		Node: id, Alive: record.Alive{Addr: string(id), Ports: record.Ports{First: 20000, Count: 4096}},
		Dawn: zero, Crowd: func() int { return w.cfg.Nodes }, Script: script{w}, Outside: outside{w},
		Faults: machine.Faults{Takes: w.takes, Ended: func(s *machine.Shim) { w.ranksEnded(s) }},
	})}
	for d := range w.cfg.DevicesPerNode {
		n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("S%d-%d", n.index, d)), Model: w.cfg.modelOf(index), Health: cluster.Healthy})
	}
	w.cfg.Groups.Apply(n.Devices) // which Validate has tried
	if w.cfg.NodesPerRack > 0 {
		n.Location = fmt.Sprintf("rack%d", index/w.cfg.NodesPerRack+1)
	}
	w.nodes = append(w.nodes, n)
	w.appear(n)
}

// survey changes what a node says of its devices.
func (w *world) survey(n *node, memory uint64) {
	for i := range n.Devices {
		n.Devices[i].MemoryBytes = memory
	}
	n.Tick()
	w.react()
}

// appear boots a node: a new life, in which it fences itself.
func (w *world) appear(n *node) {
	n.PowerOn()
	w.write(record.Put(record.FencingKey(n.Node), record.Fencing{AliveRev: n.Life()}))
	w.react()
}

func (w *world) node(id cluster.NodeID) *node {
	i, err := strconv.Atoi(strings.TrimPrefix(string(id), "n"))
	if err != nil {
		panic("sim: node " + string(id))
	}
	return w.nodes[i]
}

// outside is what the machines are connected to.
type outside struct{ w *world }

// Now implements machine.Outside.
func (o outside) Now() time.Duration { return o.w.now }

// At implements machine.Outside. What happens at once does so before the leader hears of anything.
func (o outside) At(after time.Duration, do func()) {
	if after == 0 {
		o.w.soon = append(o.w.soon, do)
		return
	}
	o.w.at(o.w.now+after, do)
}

// Commit implements machine.Outside.
func (o outside) Commit(t record.Txn) record.Outcome {
	before := o.w.store.Revision()
	out := o.w.store.Commit(t)
	o.w.fresh = append(o.w.fresh, o.w.seen(before)...)
	return out
}

// Records implements machine.Outside.
func (o outside) Records() *record.Mirror { return o.w.mirror }

// react lets the agents act on what has changed, until none has anything to do.
func (w *world) react() {
	for len(w.soon) > 0 {
		do := w.soon[0]
		w.soon = w.soon[1:]
		do()
	}
}

// takes is how long an agent's actions take.
func (w *world) takes(a agent.Action) time.Duration {
	if _, ok := a.(agent.StartShim); ok {
		return w.cfg.StartDelay
	}
	return 0
}

// readByAgents are the kinds of records that agents act upon.
func readByAgents() []record.Kind {
	return []record.Kind{
		record.KindAlive, record.KindInventory, record.KindFencing, record.KindGrant, record.KindAck, record.KindSaved, record.KindOffer,
		record.KindSpec, record.KindPlan, record.KindPermit, record.KindHalt, record.KindFence,
	}
}

// seen shows the agents what was written after a revision, as far as agents read
// it, wakes those that it concerns, and returns it.
func (w *world) seen(before int64) []record.Change {
	changes, err := w.store.Changes(before+1, record.Root)
	if err != nil {
		panic("sim: " + err.Error())
	}
	for _, c := range changes {
		at := record.Locate(c.Key)
		if !slices.Contains(w.read, at.Kind) {
			continue
		}
		plan := w.mirror.Job(at.Job).Generation(at.Generation).Plan.Value
		if _, err := w.mirror.Apply(c); err != nil {
			panic("sim: " + err.Error())
		}
		w.wakeFor(at, c.Deleted, plan)
	}
	return changes
}

// wakeFor wakes the agents that a change concerns. plan is the generation's as it was before.
func (w *world) wakeFor(at record.Place, deleted bool, plan record.Plan) {
	if at.Kind == record.KindGrant {
		w.node(at.Node).Wake(at.Job)
	}
	for _, m := range plan.World.Members {
		n := w.node(m.Node)
		if deleted && at.Kind == record.KindPlan {
			n.Collected(record.JobGen{Job: at.Job, Generation: at.Generation})
		}
		if m.Node != at.Node || at.Kind == record.KindFence {
			n.Wake(at.Job)
		}
	}
}

// obey keeps the books on a write of the leader, before the agents act on it.
func (w *world) obey(op record.Op) {
	at := record.Locate(op.Key)
	j := w.byID[at.Job]
	switch {
	case at.Kind == record.KindSpec && !op.Delete:
		w.soon = append(w.soon, func() { w.tell(j) })
	case at.Kind == record.KindSpeed && !op.Delete && !w.cfg.Know.all():
		j.note(w.now, decode[struct{ Prediction *record.Prediction }](op.Value).Prediction)
	case at.Kind == record.KindPlan && !op.Delete:
		w.plan(j, op.Value)
	case at.Kind == record.KindPermit && op.Delete:
		w.kill(j, at.Generation)
	}
}

// decode reads what the leader wrote; it cannot be unreadable.
func decode[T any](value []byte) (v T) {
	if err := json.Unmarshal(value, &v); err != nil {
		panic("sim: " + err.Error())
	}
	return v
}

// plan notes that a generation was formed.
func (w *world) plan(j *job, value []byte) {
	p := decode[record.Plan](value)
	if f := j.foretold; f != nil && f.Began == 0 {
		f.Began, f.BeganOn = w.now, p.World.Size()
	}
	if old := j.gen; old != nil && p.From == p.World.Size() && w.whole(old) && !slices.EqualFunc(old.world.Members, p.World.Members, sameDevices) {
		w.result.Migrations++
	}
	j.gen = &generation{number: p.World.Generation, world: p.World, from: p.From, planned: w.now}
	j.gen.speed = w.speed(j)
	w.tellNoise(j)
	w.log.add(w.now, codePlan, planned(j, p)...)
	if p.From > 0 {
		j.resumed++
	}
	if j.waitsSince >= 0 {
		j.waited += w.now - j.waitsSince
		j.waitsSince = -1
	}
}

// sameDevices reports whether a node takes part in two worlds with the same devices.
func sameDevices(a, b cluster.Member) bool {
	return a.Node == b.Node && slices.Equal(a.Devices, b.Devices)
}

// placement is how many workers a world has on each of its nodes.
func placement(world cluster.World) []int {
	out := make([]int, len(world.Members))
	for i, m := range world.Members {
		out[i] = len(m.Devices)
	}
	return out
}

// planned is a plan as the journal has it.
func planned(j *job, p record.Plan) []any {
	fields := []any{j.ID, p.World.Generation, p.From}
	for _, m := range p.World.Members {
		fields = append(fields, m.Node, m.Devices)
	}
	return fields
}

// startCost is how long a new world trains nothing.
func (w *world) startCost(j *job, g *generation) time.Duration {
	return w.startCostAt(j, g.world.Size())
}

func (w *world) startCostAt(j *job, workers int) time.Duration {
	if w.cfg.Terms.StartCost != nil {
		return w.cfg.Terms.StartCost(j.Job, workers)
	}
	if cost, ok := w.cfg.StartCosts[trace.OverheadKey{Workers: workers, Model: j.Model}]; ok {
		return cost
	}
	return w.cfg.RescaleCost
}

// script is what the workers do: the ranks of a job go together, whatever nodes they are on.
type script struct{ w *world }

// of returns the job and the generation that a shim hosts a part of.
func (x script) of(s *machine.Shim) (*job, *generation) {
	j := x.w.byID[s.Job]
	return j, j.gen
}

// Run implements machine.Script. Training begins when all nodes have executed their workers.
func (x script) Run(s *machine.Shim) {
	j, g := x.of(s)
	g.shims = append(g.shims, s)
	s.Connect()
	if len(g.shims) < len(g.world.Members) || g.gone || g.frozen {
		return
	}
	g.started = true
	g.since = x.w.now + x.w.startCost(j, g)
	if x.w.rules == nil {
		x.w.forecast(j)
	}
	if x.w.measures() {
		g.first = g.since + time.Duration(math.Ceil(float64(time.Second)/(stepsPerSecond*firstSpeed(j))))
		x.w.reportFirst(j, g, 0)
	}
}

// firstSpeed is that of a job's first steps in its newest world.
func firstSpeed(j *job) float64 {
	if j.On != nil {
		return j.gen.speed
	}
	return j.Speed.On(j.gen.world.Size())
}

// Hold implements machine.Script: every rank says which step it has begun, and goes no further.
func (x script) Hold(s *machine.Shim) {
	j, g := x.of(s)
	j.advance(x.w.now)
	g.frozen = true
	begun := int64(-1)
	if step := j.step(); step > j.commit {
		begun = step
	}
	s.Holds(begun)
}

// Stop implements machine.Script. With a node gone no rank comes to the end of the
// step, so that nothing is saved.
func (x script) Stop(s *machine.Shim, after int64) {
	j, g := x.of(s)
	if step := j.step(); after >= 0 && x.w.whole(g) && (step > j.commit || g.saving) {
		g.saving = true
		j.commit, j.saved = step, j.done
		s.Saved(step, step)
	}
	s.Exit(0)
}

// Terminate implements machine.Script.
func (x script) Terminate(s *machine.Shim) { s.Exit(0) }

// forecast notes down when the present world will have done all the work.
func (w *world) forecast(j *job) {
	g := j.gen
	g.ending++
	if w.nextStage(j) {
		return
	}
	ending := g.ending
	ends := max(g.since, w.now) + j.left()
	there := func() bool { return !g.gone && !g.frozen && g.ending == ending }
	w.at(w.cfg.Terms.seen(ends), func() {
		if !there() {
			return
		}
		w.seeing(func() {
			if there() {
				j.ends = ends
				w.end(j)
			}
		})
	})
}

// end is a job's workers coming to their end: of its work, or at its bug.
func (w *world) end(j *job) {
	g := j.gen
	w.eventful = true
	j.advance(w.now)
	if j.Bug > 0 {
		g.frozen = true
		g.shims[0].Exit(1)
		return
	}
	w.complete(j)
}

// complete ends a job whose work is done.
func (w *world) complete(j *job) {
	j.done = j.Work.Seconds()
	for _, s := range j.gen.shims {
		s.Exit(0)
	}
}

// whole reports whether every node of the generation is there to save.
func (w *world) whole(g *generation) bool {
	return !slices.ContainsFunc(g.world.Members, func(m cluster.Member) bool { return !w.node(m.Node).Up() })
}

// ranksEnded takes in that workers have ended on one node.
func (w *world) ranksEnded(s *machine.Shim) {
	j := w.byID[s.Job]
	if g := j.gen; g != nil && g.number == s.Generation && !g.gone && !s.Killed() && s.Report().Failed == nil {
		w.gone(j, g, s.Halt() == nil)
	}
}

// gone keeps the books on a generation whose workers are no more.
func (w *world) gone(j *job, g *generation, finished bool) {
	g.gone = true
	took := w.now - g.planned
	j.trained += took
	j.held += took.Seconds() * float64(g.world.Size())
	if !finished {
		j.waitsSince = w.now
	}
}

// kill is the end of workers whose permit is gone; what they had not saved is lost.
func (w *world) kill(j *job, number cluster.Generation) {
	g := j.gen
	if g == nil || g.number != number || g.gone {
		return
	}
	j.advance(w.now)
	g.frozen = true
	j.done = j.saved
	w.gone(j, g, false)
}

// measures reports whether the coordinator measures what workers report.
func (w *world) measures() bool { return w.rules == nil && !w.cfg.Know.all() }

const (
	// reportEvery is how often agents report at most, but for the first step of a generation.
	reportEvery = 10 * time.Second
	// firstReports is how many reports of a generation come when an agent makes them: at
	// its first finished step and every reportEvery from then on. They are what its
	// speed and the cost of its start are measured by.
	firstReports = 12
)

// reportFirst is the nth of them, which is the word of its node on all of its jobs.
func (w *world) reportFirst(j *job, g *generation, nth int) {
	w.at(g.first+time.Duration(nth)*reportEvery, func() {
		if g.gone || g.frozen || nth == firstReports {
			return
		}
		w.reportOf(w.node(g.world.Members[0].Node))
		w.reportFirst(j, g, nth+1)
	})
}

// report is every agent's word on how far its jobs have come. Agents give it every
// few seconds; here it is enough when the leader wakes by itself, as it does for
// every decision that is due while anything runs. Under Rules it is at each event, and
// where a policy may be asked at each event, every reportEvery.
func (w *world) report() {
	w.reported = w.now
	w.open = slices.DeleteFunc(w.open, func(j *job) bool { return j.phase.Terminal() })
	w.reportOf(w.nodes...)
}

// reportOf is the word of some agents. Of a world on several nodes, the first one's stands for all.
func (w *world) reportOf(nodes ...*node) {
	reports := make([]record.Progress, len(w.nodes))
	for _, n := range nodes {
		reports[n.index].Jobs = map[cluster.JobID]record.JobProgress{}
	}
	for _, j := range w.open {
		g := j.gen
		if g == nil || !g.started || g.gone {
			continue
		}
		n := w.node(g.world.Members[0].Node)
		if reports[n.index].Jobs == nil {
			continue
		}
		if j.advance(w.now); j.step() <= j.commit {
			continue // no step of this world has begun: there is nothing to say yet
		}
		p := record.JobProgress{Generation: g.number, Step: j.step(), At: zero.Add(w.now)}
		if w.measures() {
			p.FirstStep, p.FirstAt = j.commit+1, zero.Add(g.first)
		}
		reports[n.index].Jobs[j.id] = p
		w.tellLosses(j)
	}
	var ops []record.Op
	for i, r := range reports {
		if len(r.Jobs) > 0 {
			ops = append(ops, record.Put(record.ProgressKey(w.nodes[i].Node), r))
		}
	}
	if len(ops) > 0 {
		w.write(ops...)
	}
}
