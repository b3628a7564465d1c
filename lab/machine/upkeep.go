package machine

import (
	"reflect"
	"slices"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// writeInventory records the node's devices. Those of processes that do not die
// are unfit.
func (m *Machine) writeInventory() {
	at := lane{what: "inventory"}
	if m.rev == 0 || m.lanes[at] || !m.Reaches() {
		return
	}
	stock := agent.Stock{Devices: m.Devices, Location: m.Location, Taken: map[cluster.DeviceID]bool{}, Stuck: map[cluster.DeviceID]cluster.JobID{}}
	for _, r := range m.runs {
		if r.dir == nil || r.state == agent.Absent {
			continue
		}
		pids, _ := r.survivors()
		for _, d := range r.dir.order.Member.Devices {
			if stock.Taken[d] = true; len(pids) > 0 {
				stock.Stuck[d] = r.jg.Job
			}
		}
	}
	inventory, recorded := stock.Inventory(), m.own().Inventory
	if recorded.Exists() && reflect.DeepEqual(recorded.Value.Devices, inventory.Devices) {
		return
	}
	m.write(at, record.Txn{ID: "inventory", If: []record.Compare{m.stillHere()}, Then: []record.Op{
		record.Put(record.InventoryKey(m.Node), inventory),
	}}, nil)
}

// writeProgress records how far the jobs have come, as often as agent/host does.
func (m *Machine) writeProgress() {
	at := lane{what: progressLane}
	if m.rev == 0 || m.lanes[at] {
		return
	}
	recorded := m.own().Progress.Value.Jobs
	jobs, fresh, changed := map[cluster.JobID]record.JobProgress{}, false, false
	for job, p := range recorded {
		if m.own().Acks[record.JobGen{Job: job, Generation: p.Generation}] != nil {
			jobs[job] = p
		}
	}
	for jg, r := range m.runs {
		if r.report == nil || r.report.Progress == nil || jobs[jg.Job].Generation > jg.Generation {
			continue
		}
		p := *r.report.Progress
		p.Generation, p.Nonce = jg.Generation, r.nonce
		fresh = fresh || recorded[jg.Job].Generation != jg.Generation
		changed = changed || recorded[jg.Job].Step != p.Step
		jobs[jg.Job] = p
	}
	if !fresh && (!changed || m.Outside.Now() < m.progress+progressEvery) {
		return
	}
	m.progress = m.Outside.Now()
	m.write(at, record.Txn{ID: "progress", If: []record.Compare{m.stillHere()}, Then: []record.Op{
		record.Put(record.ProgressKey(m.Node), record.Progress{Jobs: jobs}),
	}}, nil)
}

// Collect looks which generations the leader has forgotten, so that this node's
// records of them can go too.
func (m *Machine) Collect() {
	for jg := range m.own().Acks {
		m.Collected(jg)
	}
}

// Collected has the agent look whether the leader has forgotten a generation.
func (m *Machine) Collected(jg record.JobGen) {
	if m.runs[jg] == nil && !m.Outside.Records().Job(jg.Job).Generation(jg.Generation).Plan.Exists() {
		m.collected[jg] = true
		m.dirty[jg.Job] = true
	}
}

// probe looks whether what this node has failed of, and may pass, is over, and says so once.
func (m *Machine) probe() {
	if m.Faults.Passed == nil || m.rev == 0 {
		return
	}
	records := m.Outside.Records()
	for _, jg := range m.awaiting() {
		if m.Outside.Now() < m.probes[jg] || m.lanes[lane{jg, agent.AckLane}] {
			continue
		}
		if m.probes[jg] = m.Outside.Now() + probeEvery; !m.Faults.Passed(jg) {
			continue
		}
		said := record.Cleared{At: m.clock(), Nonce: agent.AcksOf(records, m.Node, jg).Failed.Value.Nonce}
		m.create(lane{jg, agent.AckLane}, "ack cleared", []record.Op{
			record.Put(record.AckKey(m.Node, jg.Job, jg.Generation, record.AckCleared), said),
		}, nil)
	}
}

// awaiting are the generations, each its job's newest here, of which something that
// may pass has made a start fail, sorted.
func (m *Machine) awaiting() []record.JobGen {
	newest := map[cluster.JobID]cluster.Generation{}
	for jg := range m.own().Acks {
		newest[jg.Job] = max(newest[jg.Job], jg.Generation)
	}
	var all []record.JobGen
	for job, g := range newest {
		jg := record.JobGen{Job: job, Generation: g}
		a := agent.AcksOf(m.Outside.Records(), m.Node, jg)
		if a.Failed.Exists() && a.Failed.Value.Kind.MayPass() && a.Stopped.Exists() && !a.Cleared.Exists() {
			all = append(all, jg)
		}
	}
	slices.SortFunc(all, agent.Compare)
	return all
}
