package host

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

const (
	// tickEvery is how often the node looks at what nothing tells it: plain
	// scripts' directories, waits that are over.
	tickEvery = time.Second
	// eventBacklog is how many events may wait for the owner. It only evens out
	// bursts: who posts more waits.
	eventBacklog = 256
)

// node is the state of the agent. One goroutine owns it: what others have to
// say, they post.
type node struct {
	cfg   Config
	store *store.Store
	data  *dataDir
	log   zerolog.Logger

	ctx    context.Context //nolint:containedctx // lives as long as the owner's loop: the parent of all that runs beside
	events chan func()
	wg     sync.WaitGroup // everything that runs beside

	cluster   string
	presence  presence
	heard     atomic.Int64 // presence.renewed, for others to read
	told      uint64       // number of this node's newest event, as far as it came from here
	abandon   chan int64
	crowd     int // how many nodes the cluster has, as last read; 0 = not known yet
	records   *records
	followers map[string]*follower
	runs      map[record.JobGen]*run
	strays    map[string]stray // run directories that could not be adopted and are not swept yet
	unscanned error            // why it is not known which runs there are; nil once it is
	began     int64            // as of which revision this agent has known the node's records; 0 = not yet
	witness   *witness
	lanes     map[lane]bool // what is under way
	proofs    []proof       // of checkpoints known to be sound, the newest last
	collected map[record.JobGen]bool
	probes    map[record.JobGen]time.Time // when to look next whether what this node failed of is over
	gossip    *gossip
	devices   devices
	train     train
	occupants occupants
	locks     oldLocks
	files     files
	progress  time.Time // when the progress record was written last
	checked   time.Time // when collected generations were last looked for
	scopes    bool      // shims get transient scopes of systemd's
	logsSwept time.Time // when old logs were last looked for
	ready     bool      // announced
}

func newNode(ctx context.Context, cfg Config, s *store.Store) *node {
	n := &node{
		cfg: cfg, store: s, log: cfg.Log, ctx: ctx,
		events: make(chan func(), eventBacklog), abandon: make(chan int64, 1),
		records: newRecords(cfg.Log), followers: map[string]*follower{},
		runs: map[record.JobGen]*run{}, strays: map[string]stray{}, lanes: map[lane]bool{},
		probes: map[record.JobGen]time.Time{},
	}
	n.witness = newWitness(cfg, n.struck)
	return n
}

// lane is what only one action at a time may touch.
type lane struct {
	of   record.JobGen // zero for the node's own
	what agent.Lane
}

// post hands an event to the owner. Events posted after the loop's end are dropped.
func (n *node) post(event func()) {
	select {
	case n.events <- event:
	case <-n.ctx.Done():
	}
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

// drain takes in what has come meanwhile, so that one look at the whole serves all of it.
func (n *node) drain() {
	for range eventBacklog {
		select {
		case event := <-n.events:
			event()
		default:
			return
		}
	}
}

// step brings everything in line with what is known now.
func (n *node) step() {
	n.noticeAlive()
	n.noticeBegin()
	n.sweepStrays()
	n.promise()
	n.followGoals()
	n.forgetRuns()
	n.lookForPlain()
	n.retain()
	n.watchRoom()
	n.probeFailed()
	for _, a := range agent.Plan(n.desired(), n.observed()) {
		n.act(a)
	}
	n.guard()
	n.writeInventory()
	n.writeProgress()
	n.announce()
}

// tick looks after what nothing tells.
func (n *node) tick() {
	n.scanAgain()
	n.askDevices()
	n.lookAtInterface()
	n.lookAtLocks()
	n.checkCollected()
	n.sweepLogs()
	n.gossip.tell(n.reachesEtcd())
	n.tellVitals()
	n.notifyWatchdog()
}

// reachedWithin is how fresh the last answer of etcd must be for this node to say that it reaches it.
const reachedWithin = 3 * time.Second

func (n *node) reachesEtcd() bool {
	return n.presence.aliveRev != 0 && store.Boottime()-n.presence.renewed < reachedWithin
}

// silence is for how long etcd has not answered, once that is worth a word. Any goroutine may ask.
func (n *node) silence() time.Duration {
	heard := time.Duration(n.heard.Load())
	if since := store.Boottime() - heard; heard > 0 && since >= reachedWithin {
		return since
	}
	return 0
}

// noticeAlive ends a life whose alive key was deleted behind its lease's back:
// the leader counts this node as lost, so it has to come back as a new one.
func (n *node) noticeAlive() {
	if n.presence.aliveRev == 0 || !n.records.known(selfPart) {
		return
	}
	alive := n.records.mirror.Node(n.cfg.Node).Alive
	if alive.Exists() && alive.Create == n.presence.aliveRev || n.records.listed[selfPart] < n.presence.aliveRev {
		return
	}
	n.log.Error().Int64("alive_rev", n.presence.aliveRev).Msg("this node's alive key is gone")
	select {
	case <-n.abandon: // of an earlier life
	default:
	}
	n.abandon <- n.presence.aliveRev
	n.presence = presence{}
}

// logger names a generation in every line.
func (n *node) logger(jg record.JobGen) zerolog.Logger {
	return n.log.With().Str("job", string(jg.Job)).Uint64("gen", uint64(jg.Generation)).Logger()
}

// self is this node's own records.
func (n *node) self() *record.NodeView { return n.records.mirror.Node(n.cfg.Node) }

// stillHere guards writes: they land only in this life of the node.
func (n *node) stillHere() record.Compare {
	return record.SameLife(record.AliveKey(n.cfg.Node), n.presence.aliveRev)
}

// generationOf is a short form for a pair of names.
func generationOf(j cluster.JobID, g cluster.Generation) record.JobGen {
	return record.JobGen{Job: j, Generation: g}
}
