package host

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/systemd"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

const (
	// progressEvery is how often progress is recorded at most: it is for people,
	// and etcd has better to do.
	progressEvery = 10 * time.Second
	// blindFor is how long the devices may not be looked at before they count as
	// sick: longer than the driver takes to be reloaded.
	blindFor = 2 * time.Minute
	// collectEvery is how often the node looks which generations the leader has
	// forgotten, and collectMost how many it looks for each time.
	collectEvery = time.Minute
	collectMost  = 16

	// lostAtOnce keeps the transaction small that tells of lost saves; the rest is told with the next.
	lostAtOnce = 8

	inventoryLane agent.Lane = "inventory"
	devicesLane   agent.Lane = "devices"
	progressLane  agent.Lane = "progress"
	collectLane   agent.Lane = "collect"
)

// devices is what was last seen of the node's devices.
type devices struct {
	asked   time.Time
	failing time.Time         // since when nobody could look; zero = the last look was answered
	unseen  string            // why the answer was that there is nothing to look with; empty = it was another
	seen    *record.Inventory // nil until the first answer
	// read is what the API shows of the last look.
	read atomic.Pointer[readings]
}

// askDevices looks at the devices now and then.
func (n *node) askDevices() {
	at := lane{what: devicesLane}
	if n.lanes[at] || time.Since(n.devices.asked) < n.cfg.lookEvery {
		return
	}
	n.devices.asked = time.Now()
	n.beside(at, func(ctx context.Context) func() {
		survey, err := n.cfg.Devices.Survey(ctx)
		looked := time.Now()
		return func() {
			n.surveyed(survey, err)
			if err == nil {
				n.attribute(&readings{at: looked, survey: survey})
			}
		}
	})
}

// surveyed takes in what a look at the devices has found. One that failed says
// nothing about the devices: those known stay as they are, and what runs on them
// runs on. Only when nobody could look for some time do they count as sick, so
// that their jobs save and move.
//
// A library that answers and refuses as a whole, as after an upgrade of the
// driver's package, says nothing about what runs either: workers that have the
// driver open go on. Only for something new there are no devices then.
func (n *node) surveyed(s nvml.Survey, err error) {
	seen := record.Inventory{Devices: s.Inventory(), Problem: s.Problem}
	n.devices.unseen = ""
	if err == nil {
		n.devices.failing = time.Time{}
		if s.Refused {
			n.devices.unseen = s.Problem
			seen.Devices = n.known()
		} else {
			n.files.learn(s)
		}
	} else {
		if n.devices.failing.IsZero() {
			n.devices.failing = time.Now()
		}
		seen.Problem = err.Error()
		seen.Devices = n.known()
		if n.blind() {
			sicken(seen.Devices)
		}
	}
	if seen.Problem != "" && (n.devices.seen == nil || n.devices.seen.Problem != seen.Problem) {
		n.log.Error().Str("problem", seen.Problem).Msg("devices are missing")
	}
	n.devices.seen = &seen
}

// known are the devices that were seen last, for the caller to change.
func (n *node) known() []cluster.Device {
	if n.devices.seen == nil {
		return nil
	}
	return slices.Clone(n.devices.seen.Devices)
}

// blind reports whether nobody could look for so long that devices count as sick.
func (n *node) blind() bool {
	return !n.devices.failing.IsZero() && time.Since(n.devices.failing) > blindFor
}

func sicken(devices []cluster.Device) {
	for i := range devices {
		devices[i].Health, devices[i].Problem = cluster.Unhealthy, "cannot be looked at"
	}
}

// adopted are the devices of the runs that this agent has found here, as its
// predecessor has recorded them: all that it knows of while it cannot look itself.
func (n *node) adopted(taken map[cluster.DeviceID]bool) []cluster.Device {
	if n.devices.unseen == "" && n.devices.failing.IsZero() {
		return nil
	}
	devices := slices.DeleteFunc(slices.Clone(n.self().Inventory.Value.Devices), func(d cluster.Device) bool { return !taken[d.ID] })
	if n.blind() {
		sicken(devices)
	}
	return devices
}

// writeInventory records what the node has to give.
func (n *node) writeInventory() {
	at := lane{what: inventoryLane}
	if n.devices.seen == nil || n.presence.aliveRev == 0 || !n.records.known(selfPart) || n.lanes[at] ||
		n.cfg.networked() && !n.train.looked || !n.occupants.looked && n.devices.failing.IsZero() {
		return
	}
	inventory := n.stock().Inventory()
	recorded := n.self().Inventory
	if recorded.Exists() && reflect.DeepEqual(recorded.Value, inventory) {
		return
	}
	ops := []record.Op{record.Put(record.InventoryKey(n.cfg.Node), inventory)}
	for _, e := range agent.DeviceNews(recorded.Value, inventory) {
		ops = append(ops, n.tell(e))
	}
	n.replace(at, "inventory", ops...)
}

// stock is what is known of the node's devices.
func (n *node) stock() agent.Stock {
	s := agent.Stock{
		Devices: n.devices.seen.Devices, Problem: n.devices.seen.Problem, Addr: n.train.addr, Cut: n.train.problem,
		Unseen: n.devices.unseen, Occupied: n.occupants.judged.Problems, Locks: n.locks.onDevices(), Files: n.files.enforced(),
		Taken: map[cluster.DeviceID]bool{}, Stuck: map[cluster.DeviceID]cluster.JobID{},
	}
	for d, jg := range n.holders() {
		s.Taken[d] = true
		if pids, _ := n.runs[jg].survivors(); len(pids) > 0 {
			s.Stuck[d] = jg.Job
		}
	}
	if len(s.Devices) == 0 {
		s.Devices = n.adopted(s.Taken)
	}
	return s
}

// writeProgress records how far the jobs have come: a generation's first word at
// once, then now and then, and nothing where nothing has changed.
func (n *node) writeProgress() {
	at := lane{what: progressLane}
	if n.presence.aliveRev == 0 || !n.records.known(selfPart) || n.lanes[at] {
		return
	}
	recorded := n.self().Progress.Value.Jobs
	jobs := map[cluster.JobID]record.JobProgress{}
	// What ended stays to be seen as long as its generation does.
	for job, p := range recorded {
		if n.self().Acks[generationOf(job, p.Generation)] != nil {
			jobs[job] = p
		}
	}
	problems := n.problems()
	fresh := !maps.EqualFunc(problems, n.self().Progress.Value.Problems, sameProblem)
	for jg, r := range n.runs {
		if r.report == nil || r.report.Progress == nil || jobs[jg.Job].Generation > jg.Generation {
			continue
		}
		p := *r.report.Progress
		p.Generation, p.Nonce = jg.Generation, r.nonce
		fresh = fresh || recorded[jg.Job].Generation != jg.Generation
		jobs[jg.Job] = p
	}
	fresh = fresh || n.lostUntold()
	if !fresh && (maps.EqualFunc(jobs, recorded, sameProgress) || time.Since(n.progress) < progressEvery) {
		return
	}
	n.progress = time.Now()
	ops := append([]record.Op{record.Put(record.ProgressKey(n.cfg.Node), record.Progress{Jobs: jobs, Problems: problems})}, n.tellLost()...)
	n.replace(at, "progress", ops...)
}

func (n *node) lostUntold() bool {
	for _, r := range n.runs {
		if r.lost != "" && !r.lostTold {
			return true
		}
	}
	return false
}

// tellLost tells of saves that came to nothing, once until one is whole again: a
// job may save every second.
func (n *node) tellLost() (ops []record.Op) {
	for _, jg := range slices.SortedFunc(maps.Keys(n.runs), compareGenerations) {
		r := n.runs[jg]
		if r.lost != "" && !r.lostTold && len(ops) < lostAtOnce {
			ops = append(ops, n.tell(record.Event{Kind: record.CheckpointLost, Job: jg.Job, Generation: jg.Generation, Why: r.lost}))
			r.lostTold = true
		}
	}
	return ops
}

// problems are those of the runs here, and those that ended with theirs as long
// as their generations can be seen.
func (n *node) problems() map[cluster.JobID]record.Problem {
	recorded := n.self().Progress.Value.Problems
	all := map[cluster.JobID]record.Problem{}
	for job, p := range recorded {
		jg := generationOf(job, p.Generation)
		if n.runs[jg] == nil && n.self().Acks[jg] != nil {
			all[job] = p
		}
	}
	for jg, r := range n.runs {
		text := r.problem()
		if text == "" || all[jg.Job].Generation > jg.Generation {
			continue
		}
		all[jg.Job] = record.Problem{Generation: jg.Generation, Text: text, At: time.Now()}
	}
	n.tellOfLocks(all)
	for job, p := range all {
		if was := recorded[job]; sameProblem(was, p) {
			all[job] = was
		}
	}
	return all
}

func sameProblem(a, b record.Problem) bool { return a.Generation == b.Generation && a.Text == b.Text }

func sameProgress(a, b record.JobProgress) bool {
	return a.Generation == b.Generation && a.Nonce == b.Nonce && a.Step == b.Step && a.Samples == b.Samples
}

// checkCollected looks which of the generations that this node has stopped the
// leader has forgotten, so that their records here can go too. The oldest go
// first, so a job whose oldest is still there has lost none.
func (n *node) checkCollected() {
	at := lane{what: collectLane}
	if n.lanes[at] || time.Since(n.checked) < collectEvery || !n.records.known(selfPart) {
		return
	}
	n.checked = time.Now()
	current := n.current()
	var old []record.JobGen
	for jg := range n.self().Acks {
		if !slices.Contains(current, jg) {
			old = append(old, jg)
		}
	}
	if len(old) == 0 {
		return
	}
	slices.SortFunc(old, compareGenerations)
	n.beside(at, func(ctx context.Context) func() {
		gone := map[record.JobGen]bool{}
		kept := map[cluster.JobID]bool{}
		for _, jg := range old {
			if kept[jg.Job] || len(gone) == collectMost {
				continue
			}
			_, exists, err := n.store.Get(ctx, record.PlanKey(jg.Job, jg.Generation))
			if err != nil || exists {
				kept[jg.Job] = true
				continue
			}
			gone[jg] = true
		}
		return func() { n.collected = gone }
	})
}

// announce says once that the node is in the cluster and answers.
func (n *node) announce() {
	if n.ready || n.presence.aliveRev == 0 || !n.records.known(selfPart) {
		return
	}
	n.ready = true
	n.log.Info().Str("socket", n.cfg.Socket).Int("runs", len(n.runs)).Msg("ready")
	if err := systemd.Ready(); err != nil {
		n.log.Warn().Err(err).Msg("cannot tell that it is ready")
	}
	if n.cfg.Ready != nil {
		n.cfg.Ready()
	}
}

// notifyWatchdog tells systemd that the owner's loop goes round.
func (n *node) notifyWatchdog() {
	if err := systemd.Alive(); err != nil {
		n.log.Warn().Err(err).Msg("cannot tell systemd's watchdog")
	}
}
