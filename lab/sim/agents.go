package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/trace"
	"github.com/bellows-ml/bellows/record"
)

// node is a simulated agent with its devices.
type node struct {
	id    cluster.NodeID
	index int
	life  int
	up    bool
}

// addNode brings a node into the cluster for the first time.
func (w *world) addNode(index int) {
	n := &node{id: cluster.NodeID(fmt.Sprintf("n%05d", index)), index: index}
	w.nodes = append(w.nodes, n)
	w.survey(n, 0)
	w.appear(n)
}

// survey writes what devices a node has.
func (w *world) survey(n *node, memory uint64) {
	inv := record.Inventory{}
	for d := range w.cfg.DevicesPerNode {
		inv.Devices = append(inv.Devices, cluster.Device{
			ID: cluster.DeviceID(fmt.Sprintf("S%d-%d", n.index, d)), Model: "SIM", Health: cluster.Healthy, MemoryBytes: memory,
		})
	}
	w.write(record.Put(record.InventoryKey(n.id), inv))
}

// appear writes the node's alive key: a new life, in which it fences itself.
func (w *world) appear(n *node) {
	n.up = true
	n.life++
	life := w.store.Revision() + 1
	if kv, exists := w.store.Get(record.AliveKey(n.id)); exists {
		life = kv.CreateRevision
	}
	w.write(
		record.Put(record.AliveKey(n.id), record.Alive{
			Incarnation: strconv.Itoa(n.life), Addr: string(n.id), Ports: record.Ports{First: 20000, Count: 4096},
		}),
		record.Put(record.FencingKey(n.id), record.Fencing{AliveRev: life}),
	)
}

func (w *world) node(id cluster.NodeID) *node {
	i, err := strconv.Atoi(strings.TrimPrefix(string(id), "n"))
	if err != nil {
		panic("sim: node " + string(id))
	}
	return w.nodes[i]
}

// obey is what the agents do about a write of the leader.
func (w *world) obey(op record.Op) {
	rest, ok := strings.CutPrefix(op.Key, record.JobsPrefix)
	if !ok {
		return
	}
	parts := strings.Split(rest, "/")
	j := w.byID[cluster.JobID(parts[0])]
	switch {
	case op.Prefix && parts[1] == "": // the job's records are gone
		w.forget(j, ^cluster.Generation(0))
	case parts[1] != "gen":
	case op.Prefix:
		w.forget(j, generationOf(parts[2]))
	case parts[3] == "plan":
		w.plan(j, op.Value)
	case parts[3] == "halt":
		w.halt(j, op.Value)
	case parts[3] == "permit" && op.Delete:
		w.kill(j, generationOf(parts[2]))
	}
}

func generationOf(part string) cluster.Generation {
	g, err := strconv.ParseUint(part, 10, 64)
	if err != nil {
		panic("sim: generation " + part)
	}
	return cluster.Generation(g)
}

// decode reads what the leader wrote; it cannot be unreadable.
func decode[T any](value []byte) (v T) {
	if err := json.Unmarshal(value, &v); err != nil {
		panic("sim: " + err.Error())
	}
	return v
}

// plan forms a generation; its agents start the workers after StartDelay.
func (w *world) plan(j *job, value []byte) {
	p := decode[record.Plan](value)
	if j.gen != nil {
		j.past = append(j.past, j.gen)
	}
	g := &generation{number: p.World.Generation, world: p.World, from: p.From, planned: w.now}
	j.gen = g
	w.log.add(w.now, codePlan, planned(j, p)...)
	if p.From > 0 {
		j.resumed++
	}
	if j.waitsSince >= 0 {
		j.waited += w.now - j.waitsSince
		j.waitsSince = -1
	}
	if w.cfg.StartDelay == 0 {
		w.start(j, g)
		return
	}
	w.at(w.now+w.cfg.StartDelay, func() { w.start(j, g) })
}

// planned is a plan as the journal has it.
func planned(j *job, p record.Plan) []any {
	fields := []any{j.ID, p.World.Generation, p.From}
	for _, m := range p.World.Members {
		fields = append(fields, m.Node, m.Devices)
	}
	return fields
}

// start is all agents of the generation saying that their workers run.
func (w *world) start(j *job, g *generation) {
	if g.gone || g.frozen || g.started {
		return
	}
	g.started = true
	g.since = w.now + w.startCost(j, g)
	var ops []record.Op
	for _, m := range g.world.Members {
		ops = append(ops, record.Put(record.AckKey(m.Node, j.id, g.number, record.AckStarted), record.Started{ExecedAt: zero.Add(w.now)}))
	}
	w.write(ops...)
	if w.rules != nil {
		return
	}
	w.forecast(j)
}

// startCost is how long a new world trains nothing.
func (w *world) startCost(j *job, g *generation) time.Duration {
	if cost, ok := w.cfg.StartCosts[trace.OverheadKey{Workers: g.world.Size(), Model: j.Model}]; ok {
		return cost
	}
	return w.cfg.RescaleCost
}

// forecast notes down when the present world will have done all the work.
func (w *world) forecast(j *job) {
	g := j.gen
	g.ending++
	ending := g.ending
	w.at(max(g.since, w.now)+j.left(), func() {
		if !g.gone && !g.frozen && g.ending == ending {
			w.end(j)
		}
	})
}

// end is a job's workers coming to their end: of its work, or at its bug.
func (w *world) end(j *job) {
	g := j.gen
	j.advance(w.now)
	if j.Bug > 0 {
		g.frozen = true
		m := g.world.Members[0]
		w.write(record.Put(record.AckKey(m.Node, j.id, g.number, record.AckFailed), record.Failed{
			Kind: record.WorkerFailed, Reason: "bug", At: zero.Add(w.now),
		}))
		return
	}
	j.done = j.Work.Seconds()
	w.stop(j, g, true)
}

// halt is the agents' answer to a halt: hold the ranks, then save and stop where told.
func (w *world) halt(j *job, value []byte) {
	h, g := decode[record.Halt](value), j.gen
	switch {
	case !h.Save || g.gone: // without its permit it is killed
	case h.StopAfter == nil && !g.held:
		w.hold(j, g)
	case h.StopAfter != nil:
		if *h.StopAfter >= 0 && w.whole(g) {
			w.save(j, g)
		}
		w.stop(j, g, false)
	}
}

// hold is every rank saying which step it has begun, and going no further.
func (w *world) hold(j *job, g *generation) {
	j.advance(w.now)
	g.frozen, g.held = true, true
	held := record.Held{SDK: true, Begun: -1, At: zero.Add(w.now)}
	if s := j.step(); s > j.commit {
		held.Begun = s
	}
	var ops []record.Op
	for _, m := range g.world.Members {
		if w.node(m.Node).up {
			ops = append(ops, record.Put(record.AckKey(m.Node, j.id, g.number, record.AckHeld), held))
		}
	}
	if len(ops) > 0 {
		w.write(ops...)
	}
}

// whole reports whether every node of the generation is there to save.
func (w *world) whole(g *generation) bool {
	for _, m := range g.world.Members {
		if !w.node(m.Node).up {
			return false
		}
	}
	return true
}

// save is rank 0's agent offering a checkpoint.
func (w *world) save(j *job, g *generation) {
	step := j.step()
	if step <= j.commit {
		return
	}
	w.write(record.Put(record.OfferKey(g.world.Members[0].Node, j.id, g.number, step), record.Offer{
		Checkpoint: record.Checkpoint{
			Generation: g.number, Step: step, Samples: step, Dir: "/checkpoints", ManifestSHA256: "0", WorldSize: g.world.Processes(),
		},
		At: zero.Add(w.now),
	}))
	j.commit, j.saved = step, j.done
}

// stop is the agents saying that nothing of the generation is left.
func (w *world) stop(j *job, g *generation, finished bool) {
	if g.gone {
		return
	}
	g.gone = true
	var ops []record.Op
	for _, m := range g.world.Members {
		if n := w.node(m.Node); n.up {
			ops = append(ops, w.stopped(j, g, n, finished))
		}
	}
	if len(ops) > 0 {
		w.write(ops...)
	}
	took := w.now - g.planned
	j.trained += took
	j.held += took.Seconds() * float64(g.world.Size())
	if !finished {
		j.waitsSince = w.now
	}
}

func (w *world) stopped(j *job, g *generation, n *node, finished bool) record.Op {
	at := zero.Add(w.now)
	return record.Put(record.AckKey(n.id, j.id, g.number, record.AckStopped), record.Stopped{
		Finished: finished, SignalledAt: at, ExitedAt: at,
	})
}

// kill ends workers whose permit is gone; what they had not saved is lost.
func (w *world) kill(j *job, number cluster.Generation) {
	g := j.gen
	if g == nil || g.number != number || g.gone {
		return
	}
	j.advance(w.now)
	g.frozen = true
	j.done = j.saved
	w.stop(j, g, false)
}

// forget deletes what the agents wrote about a generation that the leader has deleted, or about all.
func (w *world) forget(j *job, number cluster.Generation) {
	var ops []record.Op
	all := j.past
	if number == ^cluster.Generation(0) && j.gen != nil {
		all = append(all, j.gen)
	}
	j.past = nil
	for _, g := range all {
		if g.number != number && number != ^cluster.Generation(0) {
			j.past = append(j.past, g)
			continue
		}
		for _, m := range g.world.Members {
			for _, key := range []string{
				record.AckPrefix(m.Node, j.id, g.number),
				strings.TrimSuffix(record.OfferKey(m.Node, j.id, g.number, 0), "0"),
			} {
				if kvs, _ := w.store.Range(key); len(kvs) > 0 {
					ops = append(ops, record.DeletePrefix(key))
				}
			}
		}
	}
	if len(ops) > 0 {
		w.write(ops...)
	}
}

// report is every agent's word on how far its jobs have come. Agents give it every
// few seconds; here it is enough when the leader wakes by itself, as it does for
// every decision that is due while anything runs. Under Rules it is at each event.
func (w *world) report() {
	reports := make([]record.Progress, len(w.nodes))
	w.open = slices.DeleteFunc(w.open, func(j *job) bool { return j.phase.Terminal() })
	for _, j := range w.open {
		if g := j.gen; g != nil && g.started && !g.gone {
			if j.advance(w.now); j.step() <= j.commit {
				continue // no step of this world has begun: there is nothing to say yet
			}
			n := w.node(g.world.Members[0].Node)
			if reports[n.index].Jobs == nil {
				reports[n.index].Jobs = map[cluster.JobID]record.JobProgress{}
			}
			reports[n.index].Jobs[j.id] = record.JobProgress{Generation: g.number, Step: j.step(), At: zero.Add(w.now)}
		}
	}
	var ops []record.Op
	for i, r := range reports {
		if r.Jobs != nil {
			ops = append(ops, record.Put(record.ProgressKey(w.nodes[i].id), r))
		}
	}
	if len(ops) > 0 {
		w.write(ops...)
	}
}
