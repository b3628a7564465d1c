package host

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/agent"
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

	saves     *saves     // digests, merges, plain checkpoints
	retention *retention // deletes surplus checkpoints; room for the next one
	verifier  *verifier  // the checkpoint to resume from
	probes    *probes    // whether what this node failed of is over

	devices *devices  // surveys, occupants, locks, the training interface; the inventory
	gossip  *gossip   // what other nodes say; for people
	report  *progress // the progress record
	upkeep  *upkeep   // old logs, collected generations, readiness
}

func newNode(ctx context.Context, cfg Config, s *store.Store, data *dataDir) *node {
	sh := newShared(ctx, cfg, s, data)
	n := &node{shared: sh, session: newSession(sh)}
	n.watchdog = newWatchdog(cfg, n.killed)
	n.runs = newRuns(sh, n.session, n.watchdog)
	n.writer = &writer{shared: sh, session: n.session, changed: n.runs.touch}
	n.adoption = newAdoption(sh, n.runs)
	n.goals = newGoals(sh, n.session, n.runs, n.adoption)
	n.fencing = &fencing{shared: sh, session: n.session, adoption: n.adoption, goals: n.goals, writer: n.writer}
	n.devices = newDevices(sh, n.session, n.writer, n.adoption)
	n.runs.surveySoon = n.devices.surveySoon
	n.launcher = &launcher{shared: sh, runs: n.runs, session: n.session, devices: n.devices}
	tasks := &tasks{shared: sh}
	n.retention = &retention{shared: sh, runs: n.runs, tasks: tasks}
	n.verifier = &verifier{shared: sh, runs: n.runs, tasks: tasks, retention: n.retention, order: n.launcher.order}
	n.saves = &saves{shared: sh, runs: n.runs, session: n.session, tasks: tasks, retention: n.retention, verifier: n.verifier}
	n.probes = newProbes(sh, n.session, tasks, n.writer)
	n.report = &progress{shared: sh, runs: n.runs, session: n.session, writer: n.writer, locks: n.devices.locks}
	n.upkeep = &upkeep{shared: sh, runs: n.runs, session: n.session, goals: n.goals}
	return n
}

// loop takes events in and acts on what has changed, until the context ends.
func (n *node) loop() {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case event := <-n.events:
			event()
			n.drain()
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
	n.saves.lookForPlain()
	n.retention.deleteSurplus()
	n.retention.watchRoom()
	n.probes.next()
	for _, a := range agent.Plan(n.goals.desired(), n.goals.observed()) {
		n.act(a)
	}
	n.guard()
	n.devices.writeInventory()
	n.report.write()
	n.upkeep.announce()
}

// tick looks at what changes without an event.
func (n *node) tick() {
	n.adoption.scanAgain()
	n.devices.survey()
	n.devices.network.look()
	n.devices.locks.look()
	n.upkeep.checkCollected()
	n.upkeep.deleteLogs()
	n.gossip.tell(n.session.reachesEtcd())
	n.reportVitals()
	n.upkeep.notifySystemd()
}
