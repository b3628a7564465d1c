package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Outside is what a machine is connected to. Its clock is also CLOCK_BOOTTIME of
// every machine.
type Outside interface {
	// Now is the time since the beginning.
	Now() time.Duration
	// At calls do after a while. What is due at the same time is called in the
	// order of the calls of At, and never from within At.
	At(after time.Duration, do func())
	// Commit executes a transaction in etcd.
	Commit(t record.Txn) record.Outcome
	// Records shows what is in etcd now, as far as it concerns the machine.
	Records() *record.Mirror
}

// Leases are those of etcd.
type Leases interface {
	Grant(ttl time.Duration) int64
	KeepAlive(lease int64) error
}

// Script is what the workers of one generation do on one machine. They report by
// the methods of Shim.
type Script interface {
	// Run begins the training: the workers have just been executed. Those that use the SDK connect by Shim.Connect.
	Run(s *Shim)
	// Hold asks ranks that use the SDK which step they have begun; they answer with Shim.Holds.
	Hold(s *Shim)
	// Stop tells ranks that use the SDK the step after which they save and exit.
	Stop(s *Shim, after int64)
	// Terminate is SIGTERM, on which a plain script saves and exits.
	Terminate(s *Shim)
}

// Faults say how a machine fares. A function that is nil stands for a machine on
// which that takes no time and succeeds.
type Faults struct {
	// Reacts is how long it takes the agent to notice that something has changed.
	Reacts func() time.Duration
	// Takes is how long an action takes before its effect shows.
	Takes func(a agent.Action) time.Duration
	// Refuses says why the workers of a generation cannot be started here.
	Refuses func(of record.JobGen) *record.Failed
	// Damaged reports whether a checkpoint is found not to be as committed when it is read here.
	Damaged func(c record.Checkpoint) bool
	// Lost says why what the ranks have saved cannot be made durable; "" if it can.
	Lost func(d agent.Digest) string
	// Unmergeable says why the manifest of a checkpoint cannot be written; "" if it can.
	Unmergeable func(a agent.Merge) string
	// Shimless says why the shim of a generation cannot be started here.
	Shimless func(of record.JobGen) *record.Failed
	// Prepares says how long what a prepared run waits with takes to be ready, and, if it never
	// is, why workers will start without; nil = at once.
	Prepares func(s *Shim) (takes time.Duration, cold string)
	// Unpreparable says why the shim of a prepared run cannot be started here; "" if it can.
	Unpreparable func(of record.JobGen) string
	// Unbindable says why a plan cannot be put into a prepared run's directory; "" if it can.
	Unbindable func(of record.JobGen) string
	// Begun is told of each action as the agent begins it.
	Begun func(a agent.Action)
	// Unread is told of a checkpoint that a generation resumes from here and that is
	// not read, because this agent has written or read it before.
	Unread func(of record.JobGen, c record.Checkpoint)
	// Merged is told of each checkpoint when its manifest is on disk.
	Merged func(c record.Checkpoint)
	// Dies is how long workers take to die of SIGKILL; less than 0: until Shim.Release.
	Dies func(s *Shim) time.Duration
	// Passed reports whether what a start has failed of is over, where it may pass.
	Passed func(of record.JobGen) bool
	// Executed is told of workers as they are executed.
	Executed func(s *Shim)
	// Ended is told of workers that have ended, by themselves or killed; not of those
	// that the machine's power took away.
	Ended func(s *Shim)
	// Fenced is told of workers that their shim kills at the deadline.
	Fenced func(s *Shim)
}

// Config is what a machine is made of.
type Config struct {
	Node    cluster.NodeID
	Alive   record.Alive // what it says of itself
	Dawn    time.Time    // what the wall clock shows when Outside.Now is 0
	Leases  Leases       // nil: its alive key has no lease and needs no renewals
	Crowd   func() int   // how many nodes belong to the cluster, as the agent counts them
	Script  Script
	Faults  Faults
	Outside Outside
	// LauncherMemory is how much memory the processes that wait for a plan may have here together, of
	// which each takes LauncherTakes; 0 = any number.
	LauncherMemory int64
}

// LauncherTakes is the memory of a process that waits for its plan, in bytes.
const LauncherTakes = 300 << 20

// Machine is a node. Make it with New, then switch it on with PowerOn.
type Machine struct {
	Config
	Devices  []cluster.Device // as the driver shows them
	Location string           // cluster.Node.Location

	// On disk, or in the kernel: what outlives the agent.
	up       bool
	lease    int64 // kept for the agent's successor
	kept     int64 // CreateRevision of the alive key that is on it
	dirs     map[record.JobGen]*directory
	shims    []*Shim // whose process or workers live
	nextPID  int
	cut      time.Duration // until then etcd cannot be reached
	agent    bool          // the agent runs
	starts   int           // how often it was started: what an earlier one had begun comes to nothing
	awake    bool          // a look at everything is under way or to come
	stepping bool

	memory
}

// memory is what the agent knows and its successor does not.
type memory struct {
	rev       int64 // of the alive key: this life; 0 = not in the cluster
	renewed   time.Duration
	began     int64 // revision as of which it knows the node's records
	runs      map[record.JobGen]*known
	lanes     map[lane]bool
	proofs    map[record.Checkpoint]bool // written or read by this agent
	collected map[record.JobGen]bool
	probes    map[record.JobGen]time.Duration
	progress  time.Duration
	dirty     map[cluster.JobID]bool // whose generations are looked at next
	all       bool                   // all of them are
}

// lane is what one action at a time may touch.
type lane struct {
	of   record.JobGen
	what agent.Lane
}

// New makes a machine that is switched off.
func New(cfg Config) *Machine {
	m := &Machine{Config: cfg, dirs: map[record.JobGen]*directory{}, nextPID: 1000}
	m.forget()
	return m
}

// Up reports whether the machine has power.
func (m *Machine) Up() bool { return m.up }

// AgentUp reports whether its agent runs.
func (m *Machine) AgentUp() bool { return m.agent }

// Reaches reports whether the agent runs and reaches etcd.
func (m *Machine) Reaches() bool { return m.up && m.agent && m.Outside.Now() >= m.cut }

// Life is the CreateRevision of the alive key by which the agent knows itself; 0 = it is in no life.
func (m *Machine) Life() int64 { return m.rev }

// Lease is the one on which the node is in the cluster; 0 = none.
func (m *Machine) Lease() int64 { return m.lease }

// Renewed is when the lease was last renewed.
func (m *Machine) Renewed() time.Duration { return m.renewed }

// Shims are those of which a process lives, in the order of their starts.
func (m *Machine) Shims() []*Shim { return m.shims }

// Directories counts the run directories.
func (m *Machine) Directories() int { return len(m.dirs) }

func (m *Machine) clock() time.Time { return m.Dawn.Add(m.Outside.Now()) }

func (m *Machine) now() int64 { return int64(m.Outside.Now()) }

func (m *Machine) own() *record.NodeView { return m.Outside.Records().Node(m.Node) }

// Wake has the agent look at the generations of a job, or at everything if none is named.
func (m *Machine) Wake(jobs ...cluster.JobID) {
	if !m.up || !m.agent {
		return
	}
	m.all = m.all || len(jobs) == 0
	for _, job := range jobs {
		m.dirty[job] = true
	}
	if m.awake {
		return
	}
	m.awake = true
	after, starts := time.Duration(0), m.starts
	if m.Faults.Reacts != nil {
		after = m.Faults.Reacts()
	}
	m.Outside.At(after, func() {
		if starts == m.starts {
			m.awake = false
			m.Step()
		}
	})
}

// Step brings the node in line with what is known now, as far as it was woken for.
// Nothing happens while the agent is down. An agent that does not reach etcd has
// no news and does not act, but for the deadlines that it keeps.
func (m *Machine) Step() {
	if !m.Reaches() || m.stepping {
		return
	}
	m.stepping = true
	defer func() { m.stepping = false }()
	m.noticeAlive()
	m.promise()
	m.forgetRuns()
	m.lookForPlain()
	m.probe()
	concerned := m.concerned()
	m.all = false
	clear(m.dirty)
	for _, a := range agent.Plan(m.desired(concerned), m.observed(concerned)) {
		m.act(a)
	}
}

// concerned are the generations that Plan is asked about. What it answers of one
// job depends on that job's generations only.
func (m *Machine) concerned() []record.JobGen {
	all := agent.Concerns(m.own(), m.runs)
	for jg := range m.collected {
		all = append(all, jg)
	}
	slices.SortFunc(all, agent.Compare)
	return slices.DeleteFunc(slices.Compact(all), func(jg record.JobGen) bool { return !m.all && !m.dirty[jg.Job] })
}

func (m *Machine) desired(concerned []record.JobGen) agent.Desired {
	d := agent.Desired{Node: m.Node, AliveRev: m.rev, Strict: m.strict(), Deadline: m.deadline(), LauncherMemory: m.LauncherMemory}
	for _, jg := range concerned {
		g := agent.GoalOf(m.Outside.Records(), m.Node, jg)
		g.Read, g.Fresh = true, m.fresh(jg)
		d.Goals = append(d.Goals, g)
	}
	return d
}

func (m *Machine) observed(concerned []record.JobGen) agent.Observed {
	o := agent.Observed{Now: m.clock()}
	for _, jg := range concerned {
		if r := m.runs[jg]; r != nil {
			o.Runs = append(o.Runs, m.seen(r))
		}
	}
	return o
}

// fresh reports whether no earlier agent can have started a generation here.
func (m *Machine) fresh(jg record.JobGen) bool {
	if plan := m.Outside.Records().Job(jg.Job).Generation(jg.Generation).Plan; plan.Exists() {
		return m.began != 0 && plan.Create > m.began
	}
	grant := m.own().Grants[jg.Job]
	granted := grant.Exists() && grant.Value.Generation == jg.Generation
	return m.began != 0 && !granted && m.saidReady(jg).Create > m.began
}

// strict reports whether workers here die when the node's lease is not renewed.
func (m *Machine) strict() bool {
	return fence.Strict(m.Crowd()) || m.own().Fencing.Value.AliveRev != 0
}

// deadline is what shims are told to fence by.
func (m *Machine) deadline() int64 {
	switch {
	case !m.strict() || m.Leases == nil:
		return fence.Never
	case m.rev == 0:
		return 0
	}
	return fence.Deadline(int64(m.renewed), fence.TTL, fence.Margin)
}

// beside carries something out after a while, unless the agent ends before. The
// lane is taken meanwhile.
func (m *Machine) beside(at lane, takes time.Duration, then func()) {
	m.lanes[at] = true
	starts := m.starts
	do := func() {
		if starts != m.starts {
			return
		}
		delete(m.lanes, at)
		then()
		m.Wake(at.of.Job)
	}
	if takes > 0 {
		m.Outside.At(takes, do)
		return
	}
	do()
}

func (m *Machine) takes(a agent.Action) time.Duration {
	if m.Faults.Takes == nil {
		return 0
	}
	return m.Faults.Takes(a)
}

// String names the machine.
func (m *Machine) String() string { return fmt.Sprintf("machine %s", m.Node) }
