package host

import (
	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/agent/host/watchdog"
	"github.com/bellows-ml/bellows/agent/run"
)

// node is the agent: its parts, and the loop that drives them. Each part says in
// its own file what it is for and which others it needs. The loop's goroutine owns
// all of them (see shared); a part that other goroutines use, too, says so.
type node struct {
	*shared

	session  *session           // lease and alive key; the deadline
	writer   *writer            // the node's own records
	goals    *goals             // what the records ask, what is there: the input of agent.Plan
	runs     *runs              // the generations here
	watchdog *watchdog.Watchdog // kills past the deadline
	shims    *shims             // connections to the generations' shims
	adoption *adoption          // what earlier agents have left
	launcher *launcher          // starts and sweeps runs
	fencing  *fencing           // the fencing record

	checkpoints *checkpoints // the work with what the runs save
	probes      *probes      // whether what this node failed of is over

	devices   *devices.Devices // surveys, occupants, locks, the training interface
	inventory *inventory       // the inventory record
	gossip    *gossip          // what other nodes say; for people
	report    *progress        // the progress record
	upkeep    *upkeep          // old logs, readiness
}

// here is what was found out of the place that the agent runs in.
type here struct {
	Cluster     string // its name
	Scopes      bool   // shims get transient scopes of systemd's
	DeviceFiles string // how workers are kept from devices that are not theirs, by contain.TryDevices
}

func newNode(sh *shared, s *session, g *gossip, at here) *node {
	cfg := sh.cfg
	n := &node{shared: sh, session: s, gossip: g, runs: newRuns(sh)}
	n.watchdog = watchdog.New(agent.Times{Grace: cfg.grace(), Patience: run.UnkillableAfter + fence.Grace}, n.runs.killed)
	n.shims = &shims{shared: sh, session: s, watchdog: n.watchdog, runs: n.runs}
	n.writer = &writer{shared: sh, session: s, changed: n.runs.touch}
	n.adoption = newAdoption(sh, n.runs, n.shims)
	n.goals = newGoals(sh, s, n.runs, n.adoption)
	n.fencing = &fencing{shared: sh, session: s, adoption: n.adoption, goals: n.goals, writer: n.writer}
	n.devices = devices.New(sh.Loop, devices.Config{
		Source: cfg.Devices, Groups: cfg.DeviceGroups, Location: cfg.Location, PricePerHour: cfg.PricePerHour, Strangers: cfg.Strangers,
		LockDir: cfg.LockDir, Files: at.DeviceFiles, Interface: cfg.TrainInterface, Bind: cfg.Bind, LookEvery: cfg.lookEvery,
	}, n.runs.onDevices)
	n.inventory = &inventory{shared: sh, session: s, adoption: n.adoption, devices: n.devices, writer: n.writer}
	n.launcher = &launcher{shared: sh, runs: n.runs, shims: n.shims, session: s, devices: n.devices, cluster: at.Cluster, scopes: at.Scopes}
	sv := saves.New(sh.Loop, saves.Config{Node: cfg.Node, Exe: cfg.Exe, LookEvery: cfg.lookEvery}, sh.store)
	n.checkpoints = &checkpoints{shared: sh, session: s, runs: n.runs, launcher: n.launcher, saves: sv}
	n.probes = newProbes(sh, s, sv.Tasks, n.writer)
	n.report = &progress{shared: sh, runs: n.runs, session: s, writer: n.writer, devices: n.devices}
	n.upkeep = &upkeep{shared: sh, runs: n.runs, session: s}
	return n
}
