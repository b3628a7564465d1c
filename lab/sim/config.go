package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Config is everything that a run depends on.
type Config struct {
	Jobs           []Job // sorted by Submit
	Nodes          int
	DevicesPerNode int
	Layout
	Policy   allocator.Policy
	Interval time.Duration
	// Migrations is how many running jobs may be moved in an interval so that others are closer together.
	Migrations int
	// Models are of the devices of each node; nil = all are alike.
	Models []string
	// Blind: nodes do not tell that their devices are of several models, of which jobs are as fast all the same.
	Blind bool
	// RescaleCost is how long a world trains nothing after each start; StartDelay
	// is how long its agents take to start the workers.
	RescaleCost, StartDelay time.Duration
	// Promise has the coordinator answer each deadline as on a cluster: a job whose deadline
	// cannot be promised is refused.
	Promise bool
	// Foretell has the start of each job predicted that cannot start as soon as it comes.
	Foretell bool
	// StartCosts are RescaleCost by model and number of devices, for those it names.
	StartCosts trace.Overhead
	// Know is what is told of jobs beforehand; empty = KnowAll.
	Know     Know
	Failures []Failure
	// CheckpointEvery is how much training a lost node may cost.
	CheckpointEvery time.Duration
	// Terms are another simulator's conventions for the policy.
	Terms Terms
	// Rules replace the policy by another simulator's conventions; nil = none.
	Rules Rules
	// Stopwatch tells real time, for the cost of decisions; nil = do not measure. It decides nothing.
	Stopwatch func() time.Duration
	// Progress is called now and then with how many jobs have ended; may be nil.
	Progress func(ended, of int)
	// Check is asked at each moment whether the run may go on; an error ends it. May be nil.
	Check func() error
	// Log gets each line of the log, without its newline; may be nil.
	Log func(line []byte)
}

// Layout is which devices and nodes are closer together than others, and what that is worth.
type Layout struct {
	Groups       cluster.DeviceGroups // of each node's devices
	NodesPerRack int                  // 0 = no racks
	// SpanLoss is the share of its speed that a job loses on more nodes than it needs.
	SpanLoss float64
}

// Failure is a node that goes and comes back.
type Failure struct {
	Node int // from 0
	At   time.Duration
	For  time.Duration
}

// nodeTTL is how long the store believes in a node that is gone.
const nodeTTL = 10 * time.Second

// Validate reports everything that keeps the config from being run.
func (c Config) Validate() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Nodes < 1 {
		add("nodes %d: use 1 or more", c.Nodes)
	}
	if c.DevicesPerNode < 1 {
		add("devices per node %d: use 1 or more", c.DevicesPerNode)
	}
	if len(c.Jobs) == 0 {
		add("no job to run: every one was left out")
	}
	if c.Interval < 0 || c.RescaleCost < 0 || c.StartDelay < 0 {
		add("interval %v, rescale cost %v, start delay %v: use 0 or more", c.Interval, c.RescaleCost, c.StartDelay)
	}
	if c.Migrations < 0 || c.NodesPerRack < 0 {
		add("migrations %d, nodes per rack %d: use 0 or more", c.Migrations, c.NodesPerRack)
	}
	if !(c.SpanLoss >= 0 && c.SpanLoss < 1) {
		add("span loss %v: use 0 or more and less than 1", c.SpanLoss)
	}
	if c.Migrations > 0 && c.Rules != nil || c.SpanLoss > 0 && (c.Rules != nil || c.Terms.Pace != nil) {
		add("migrations %d, span loss %v: use 0 under rules that place jobs or know speeds by placement", c.Migrations, c.SpanLoss)
	}
	if problem := c.Groups.Apply(make([]cluster.Device, max(0, c.DevicesPerNode))); problem != "" {
		add("%s", problem)
	}
	if err := c.Know.check(); err != nil {
		add("%w", err)
	}
	if c.Terms.Losses != nil && !c.Know.all() {
		add("know %s: losses are told in records that the run then measures anew: use %s", c.Know, KnowAll)
	}
	if (c.Policy == nil) == (c.Rules == nil) {
		add("give a policy or rules, not both and not neither")
	}
	if c.Models != nil && len(c.Models) != c.Nodes {
		add("models of %d nodes: name one for each of the %d", len(c.Models), c.Nodes)
	}
	devices, found := c.largestWorld(), 0
	for i, j := range c.Jobs {
		switch {
		case i > 0 && j.Submit < c.Jobs[i-1].Submit:
			add("%s comes before the one above it: sort the jobs by submission", named(j))
		case j.MinWorkers > devices:
			found++
			if found == 1 {
				add("%s needs %d devices or more and the cluster has %d%s: use more nodes, or let jobs be elastic", named(j), j.MinWorkers, devices, c.ofOne())
			}
		case len(j.Sizes) > 0 && spec(j, 0).Validate() != nil:
			add("%s: %w", named(j), spec(j, 0).Validate())
		case len(spec(j, 0).WorldSizes()) == 0:
			add("%s may have %d to %d workers: no power of two lies between them", named(j), j.MinWorkers, j.MaxWorkers)
		case j.Batch.Max > j.Batch.Min && !c.Know.all():
			add("%s has a batch that ranges, and know %s leaves its steps to be measured, which here are all of one worth: use %s", named(j), c.Know, KnowAll)
		case j.Work <= 0:
			add("%s has no work to do: leave it out of the trace", named(j))
		}
	}
	if found > 1 {
		add("and %d more jobs need more devices than the cluster has", found-1)
	}
	for _, f := range c.Failures {
		if f.Node < 0 || f.Node >= c.Nodes || f.At < 0 || f.For <= nodeTTL {
			add("failure of node %d at %v for %v: name a node below %d, and longer than %v", f.Node, f.At, f.For, c.Nodes, nodeTTL)
		}
	}
	return errors.Join(faults...)
}

// largestWorld is how many devices a world may have: of one model, where nodes tell of several.
func (c Config) largestWorld() int {
	nodes := map[string]int{}
	for i := range c.Nodes {
		nodes[c.modelOf(i)]++
	}
	most := 0
	for _, n := range nodes {
		most = max(most, n)
	}
	return most * c.DevicesPerNode
}

func (c Config) ofOne() string {
	if c.Models == nil || c.Blind {
		return ""
	}
	return " of one model"
}

// modelOf is what a node says of its devices.
func (c Config) modelOf(node int) string {
	if c.Blind || node >= len(c.Models) {
		return deviceModel
	}
	return c.Models[node]
}

// named is how a fault names a job: with its line, if it came from a file.
func named(j Job) string {
	if j.Line == 0 {
		return fmt.Sprintf("job %.60q", j.ID)
	}
	return fmt.Sprintf("line %d: job %.60q", j.Line, j.ID)
}

// spec is what the job's owner submits.
func spec(j Job, index int) cluster.Spec {
	s := cluster.Spec{
		Name: jobName(index), Command: j.Command, Workdir: "/", CheckpointDir: "/checkpoints",
		ColdStart:  true, // what a start takes is given; nothing is forked
		MinWorkers: j.MinWorkers, MaxWorkers: j.MaxWorkers, Sizes: j.Sizes, Where: j.Where,
		BatchSize: cluster.BatchSize{Min: cluster.MaxWorldSize, Max: cluster.MaxWorldSize},
	}
	if len(j.Command) == 0 {
		s.Command = []string{"train", s.Name}
	}
	switch {
	case j.Batch.Min > 0:
		s.BatchSize, s.Training.MicroBatch = j.Batch, j.Micro
	case len(j.Sizes) > 0:
		s.BatchSize.Max *= 2 // which holds a multiple of every size
	}
	return s.WithDefaults()
}

// jobName sorts as the index does.
func jobName(index int) string { return fmt.Sprintf("j%07d", index) }

// jobID is the job's name with a suffix such as requests give.
func jobID(index int) cluster.JobID {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	suffix := []byte("aaaaaa")
	for i, n := len(suffix)-1, index; i >= 0; i, n = i-1, n/len(digits) {
		suffix[i] = digits[n%len(digits)]
	}
	return cluster.JobID(jobName(index) + "-" + string(suffix))
}
