package host

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/store"
)

// tickEvery is how often the node looks at what nothing tells it: plain scripts'
// directories, waits that are over.
const tickEvery = time.Second

// node is the agent: its parts, and the loop that drives them. Each part says in
// its own file what it is for and which others it needs. The loop's goroutine owns
// all of them (see shared); a part that other goroutines use, too, says so.
type node struct {
	*shared

	session  *session  // lease and alive key; the deadline
	writer   *writer   // the node's own records
	goals    *goals    // what the records ask, what is there: the input of agent.Plan
	runs     *runs     // the generations here, and their shims
	adoption *adoption // what earlier agents have left
	launcher *launcher // starts and sweeps runs
	fencing  *fencing  // the fencing record
	watchdog *watchdog // kills past the deadline

	checkpoints *checkpoints // the work with what the runs save
	probes      *probes      // whether what this node failed of is over

	devices   *devices.Devices // surveys, occupants, locks, the training interface
	inventory *inventory       // the inventory record
	gossip    *gossip          // what other nodes say; for people
	report    *progress        // the progress record
	upkeep    *upkeep          // old logs, collected generations, readiness
}

// here is what was found out of the place that the agent runs in.
type here struct {
	Cluster     string // its name
	Scopes      bool   // shims get transient scopes of systemd's
	DeviceFiles string // how workers are kept from devices that are not theirs, by contain.TryDevices
}

func newNode(ctx context.Context, cfg Config, s *store.Store, data *dataDir, at here) *node {
	sh := newShared(ctx, cfg, s, data)
	n := &node{shared: sh, session: newSession(sh)}
	n.watchdog = newWatchdog(cfg, n.killed)
	n.runs = newRuns(sh, n.session, n.watchdog)
	n.writer = &writer{shared: sh, session: n.session, changed: n.runs.touch}
	n.adoption = newAdoption(sh, n.runs)
	n.goals = newGoals(sh, n.session, n.runs, n.adoption)
	n.fencing = &fencing{shared: sh, session: n.session, adoption: n.adoption, goals: n.goals, writer: n.writer}
	n.devices = devices.New(sh.Loop, devices.Config{
		Source: cfg.Devices, Groups: cfg.DeviceGroups, Location: cfg.Location, PricePerHour: cfg.PricePerHour, Strangers: cfg.Strangers,
		LockDir: cfg.LockDir, Files: at.DeviceFiles, Interface: cfg.TrainInterface, Bind: cfg.Bind, LookEvery: cfg.lookEvery,
	}, n.runs.onDevices)
	n.inventory = &inventory{shared: sh, session: n.session, adoption: n.adoption, devices: n.devices, writer: n.writer}
	n.launcher = &launcher{shared: sh, runs: n.runs, session: n.session, devices: n.devices, cluster: at.Cluster, scopes: at.Scopes}
	sv := saves.New(sh.Loop, saves.Config{Node: cfg.Node, Exe: cfg.Exe, LookEvery: cfg.lookEvery}, s)
	n.checkpoints = &checkpoints{shared: sh, session: n.session, runs: n.runs, launcher: n.launcher, saves: sv}
	n.probes = newProbes(sh, n.session, sv.Tasks, n.writer)
	n.report = &progress{shared: sh, runs: n.runs, session: n.session, writer: n.writer, devices: n.devices}
	n.upkeep = &upkeep{shared: sh, runs: n.runs, session: n.session, goals: n.goals}
	return n
}

// loop takes events in and acts on what has changed, until the context ends.
func (n *node) loop() {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.Context().Done():
			return
		case event := <-n.Events():
			event()
			n.Drain()
		case <-tick.C:
			n.tick()
		}
		n.step()
	}
}

// step brings everything in line with what is known now. Each line begins what is
// due and returns at once.
func (n *node) step() {
	n.session.checkAliveKey()
	n.adoption.noteBegin()
	n.adoption.sweepUnadopted()
	n.fencing.update()
	n.goals.follow()
	n.runs.forgetAbsent()
	n.checkpoints.look()
	n.probes.next()
	for _, a := range agent.Plan(n.goals.desired(), n.goals.observed()) {
		n.act(a)
	}
	n.guard()
	n.inventory.write()
	n.report.write()
	n.upkeep.announce()
}

// tick looks at what changes without an event.
func (n *node) tick() {
	n.adoption.scanAgain()
	if n.runs.stopped { // what they may have left
		n.runs.stopped = false
		n.devices.Soon()
	}
	n.devices.Look()
	n.upkeep.checkCollected()
	n.upkeep.deleteLogs()
	n.gossip.tell(n.session.reachesEtcd())
	n.reportVitals()
	n.upkeep.notifySystemd()
}
