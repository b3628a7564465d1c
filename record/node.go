package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Format is the version of the records described here. An agent or coordinator refuses any other.
const Format = 1

// Meta says which cluster this is and in which format it writes. Created once, by the first coordinator.
type Meta struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
}

// Leader is the candidate's key below LeaderPrefix, on its lease.
type Leader struct {
	Node        string    `json:"node"` // host name or node id, for people
	Incarnation string    `json:"incarnation"`
	Since       time.Time `json:"since"`
	// Policy and Interval are what it decides by, so that others can look ahead; empty and 0 = not told.
	Policy   string           `json:"policy,omitempty"`
	Interval cluster.Duration `json:"interval,omitempty"`
}

// Alive is a node's presence, on its lease. Its CreateRevision is the node's token (Member.AliveRev).
type Alive struct {
	Incarnation string `json:"incarnation"`
	BootID      string `json:"boot_id"`
	Addr        string `json:"addr"`   // host part under which other nodes reach this one, and its workers unless Inventory says another
	Gossip      string `json:"gossip"` // host:port of its memberlist
	API         string `json:"api"`    // where other agents reach its API: "unix:/path" on its own machine, "tls:host:port" from everywhere
	Version     string `json:"version"`
	// Limits: it keeps its workers within cluster.Spec.PerWorker, or refuses the job.
	// Agents that are older than limits would start it without.
	Limits bool `json:"limits,omitempty"`
	// NoNewPrivs: it keeps to cluster.Spec.NoNewPrivs. Older agents would start the job without.
	NoNewPrivs bool `json:"no_new_privs,omitempty"`
	// Nonces: it tells generations of the same number apart, and writes which it
	// speaks of. Plans with a member that does not have no nonce.
	Nonces bool `json:"nonces,omitempty"`
	// Prepares: it prepares generations (Next). Older agents would not.
	Prepares bool `json:"prepares,omitempty"`
	// Ports that this node reserves for workers' rendezvous (MASTER_PORT): First … First+Count-1.
	Ports Ports `json:"ports"`
}

// Ports is a range of TCP ports.
type Ports struct {
	First int `json:"first"`
	Count int `json:"count"`
}

// Fencing is the node's word that workers of its life AliveRev die by themselves
// when its lease is not renewed; 0 = of none. Without it no process may conclude from the node's
// absence that they are dead: one that knew no other node lets them live on. It
// is no part of Alive, which is gone when it is needed.
type Fencing struct {
	AliveRev int64     `json:"alive_rev"`
	At       time.Time `json:"at"`
}

// Inventory is what the node has to give.
type Inventory struct {
	Devices []cluster.Device `json:"devices"`
	// Problem says why devices are missing ("driver not loaded"); empty if nothing is wrong.
	Problem string `json:"problem,omitempty"`
	// Addr is where other nodes reach this one's workers, on the interface kept for
	// training; empty = at Alive.Addr.
	Addr string `json:"addr,omitempty"`
	// DeviceFiles says how workers are kept from devices that are not theirs, as in
	// Started; empty also of agents that knew nothing of it.
	DeviceFiles string `json:"device_files,omitempty"`
	// Location is cluster.Node.Location, as its agent was told; empty also of agents that knew none.
	Location string `json:"location,omitempty"`
	// TopologyProblem says why its agent could not make use of the groups that it was told; empty if it could.
	TopologyProblem string `json:"topology_problem,omitempty"`
	// PricePerHour is what the node costs while it runs something; 0 = it costs nothing more.
	PricePerHour float64 `json:"price_per_hour,omitempty"`
}

// Node is the node with the devices that it has, as decisions see it: with what of its
// topology can be used. problem says what cannot, and the remedy.
func (i Inventory) Node(id cluster.NodeID) (n cluster.Node, problem string) {
	n, problem = cluster.Node{ID: id, Devices: i.Devices, Location: i.Location, PricePerHour: i.PricePerHour}.Sound()
	if i.TopologyProblem != "" && problem != "" {
		return n, i.TopologyProblem + "; " + problem
	}
	return n, i.TopologyProblem + problem
}

// Cordon keeps new work away from a node.
type Cordon struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Drain: what runs on it is to save and go elsewhere.
	Drain bool `json:"drain,omitempty"`
	// Down: an operator has made sure that nothing runs on it any more, though the
	// node itself cannot say so.
	Down bool `json:"down,omitempty"`
}

// Paused asks the leader, while it exists, to halt every job with a save, keep
// it in the queue and start none: the cluster is about to be shut down. The
// cluster's supervisor writes and deletes it; neither agents nor the leader do.
type Paused struct {
	Why string    `json:"why"`
	At  time.Time `json:"at"`
	// SaveSeconds is how long scripts have to save, where that is less than their own halt timeout.
	SaveSeconds float64 `json:"save_seconds"`
}

// Grant is the leader's word that these devices serve this generation, until it is replaced or deleted.
type Grant struct {
	Generation cluster.Generation `json:"generation"`
	Devices    []cluster.DeviceID `json:"devices"`
}

// RequestKind is what a user asks of the leader.
type RequestKind string

// The requests that agents pass on.
const (
	SubmitRequest RequestKind = "submit"
	StopRequest   RequestKind = "stop"
	ResumeRequest RequestKind = "resume"
	ScaleRequest  RequestKind = "scale"
	// The agent passes these on for root and for whom it runs as.
	DrainRequest   RequestKind = "drain"
	UndrainRequest RequestKind = "undrain"
	RemoveRequest  RequestKind = "remove"
)

// Request waits below a node for the leader, who carries it out and deletes it in one transaction.
// Owner is the caller as the kernel named it.
type Request struct {
	Kind RequestKind   `json:"kind"`
	Job  cluster.JobID `json:"job"`
	Spec *cluster.Spec `json:"spec,omitempty"` // of a submit
	// From is the step that a resume begins at: of the history, or of a checkpoint
	// that was given up and is to be tried again; FromStart for none at all; nil
	// for the last one committed.
	From *int64 `json:"from,omitempty"`
	// Now is a stop's: kill it, whatever it has not saved is lost.
	Now bool `json:"now,omitempty"`
	// MinWorkers and MaxWorkers are a scale's; 0 = as it was.
	MinWorkers int `json:"min_workers,omitempty"`
	MaxWorkers int `json:"max_workers,omitempty"`
	// TimeLimit is a scale's or a resume's; 0 = as it was.
	TimeLimit cluster.Duration `json:"time_limit,omitempty"`
	// Node, Reason and Down are those of a drain, Node also of its end and of a removal.
	Node   cluster.NodeID `json:"node,omitempty"`
	Reason string         `json:"reason,omitempty"`
	Down   bool           `json:"down,omitempty"`
	Owner  cluster.Owner  `json:"owner"`
	At     time.Time      `json:"at"`
}

// Asked is the last request that a node's agent has written. It changes with each
// and outlives them, so that one whose answer was lost is not written again when
// the leader has carried it out and deleted it.
type Asked struct {
	Request string `json:"request"`
}

// FromStart stands for the beginning of the training where a step is asked for.
const FromStart int64 = -1

// Progress is one node's advisory view of its jobs, written at most every 10 s.
type Progress struct {
	Jobs map[cluster.JobID]JobProgress `json:"jobs"`
	// Problems are what people should know of jobs that run on all the same.
	Problems map[cluster.JobID]Problem `json:"problems,omitempty"`
}

// Problem is trouble that stops nothing yet: a disk that the next checkpoint
// will not fit on, a checkpoint that was lost.
type Problem struct {
	Generation cluster.Generation `json:"generation"`
	Text       string             `json:"text"`
	Lock       bool               `json:"lock,omitempty"` // it tells of a device lock that outlived a generation
	At         time.Time          `json:"at"`
}

// JobProgress is how far a job's generation has come, as its ranks on this node reported.
type JobProgress struct {
	Generation cluster.Generation `json:"generation"`
	Step       int64              `json:"step"`
	Samples    int64              `json:"samples"` // -1 = unknown
	Loss       *float64           `json:"loss,omitempty"`
	// LossSum is the sum of all Losses that ranks of the node have told in the generation, from
	// which a reader makes the means of any steps; BadLosses is how many more were no numbers.
	LossSum   float64 `json:"loss_sum,omitempty"`
	Losses    int64   `json:"losses,omitempty"`
	BadLosses int64   `json:"bad_losses,omitempty"`
	// NoiseScale is the gradient noise scale in samples, and BaseSteps what all steps so
	// far are worth in steps at the smallest batch, both as the script tells; 0 = it does not.
	NoiseScale float64 `json:"noise_scale,omitempty"`
	BaseSteps  float64 `json:"base_steps,omitempty"`
	// FirstStep is the first step that the generation was reported to have finished, FirstAt
	// when that was, by the clock of At; 0 and zero before. What came earlier is the
	// start: imports, compilation, the first batch.
	FirstStep int64     `json:"first_step,omitempty"`
	FirstAt   time.Time `json:"first_at,omitzero"`
	// StepsPerSecond and SamplesPerSecond are measured from then on; 0 = unknown.
	StepsPerSecond   float64   `json:"steps_per_second,omitempty"`
	SamplesPerSecond float64   `json:"samples_per_second,omitempty"`
	At               time.Time `json:"at"`              // when Step was finished
	Nonce            string    `json:"nonce,omitempty"` // of the generation
	// Line is the line of a rank's by which the progress bar was chosen that is read here;
	// empty where none had to be.
	Line string `json:"line,omitempty"`
}
