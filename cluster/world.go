package cluster

import (
	"slices"
	"strconv"
	"strings"
)

// Placement is a job's part on one node.
type Placement struct {
	Node    NodeID     `json:"node"`
	Devices []DeviceID `json:"devices"`
}

// Allocation is what one job is promised: one worker per device.
type Allocation struct {
	Job        JobID       `json:"job"`
	Placements []Placement `json:"placements"`
	BatchSize  int         `json:"batch_size"` // samples per global step
}

// Workers returns the number of devices promised, which is the world size.
func (a Allocation) Workers() int {
	n := 0
	for _, p := range a.Placements {
		n += len(p.Devices)
	}
	return n
}

// Equal reports whether both promise the same devices, in the same order, at the same batch size.
func (a Allocation) Equal(b Allocation) bool {
	return a.Job == b.Job && a.BatchSize == b.BatchSize && slices.EqualFunc(a.Placements, b.Placements,
		func(x, y Placement) bool { return x.Node == y.Node && slices.Equal(x.Devices, y.Devices) })
}

// Endpoint is a network address that workers connect to.
type Endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// String returns host:port, with brackets around an IPv6 host.
func (e Endpoint) String() string {
	if strings.Contains(e.Host, ":") {
		return "[" + e.Host + "]:" + strconv.Itoa(e.Port)
	}
	return e.Host + ":" + strconv.Itoa(e.Port)
}

// Member is one node's part of a world. Its workers' ranks count from FirstRank:
// one for each device, in the order of Devices, or one for all of them.
type Member struct {
	Node NodeID `json:"node"`
	// AliveRev is the CreateRevision of the node's alive key when the world was
	// planned. An agent refuses a plan whose AliveRev is not its own: it was made
	// for an earlier life of this node.
	AliveRev  int64      `json:"alive_rev"`
	Devices   []DeviceID `json:"devices"`
	FirstRank int        `json:"first_rank"`
	// OneProcess: a single worker has all of the devices.
	OneProcess bool `json:"one_process,omitempty"`
}

// Processes returns how many workers the member has.
func (m Member) Processes() int {
	if m.OneProcess {
		return min(1, len(m.Devices))
	}
	return len(m.Devices)
}

// Ranks returns the ranks of the member's workers, ascending.
func (m Member) Ranks() []int {
	ranks := make([]int, m.Processes())
	for i := range ranks {
		ranks[i] = m.FirstRank + i
	}
	return ranks
}

// DevicesOf returns the devices of the worker with that local rank.
func (m Member) DevicesOf(local int) []DeviceID {
	if m.OneProcess {
		return m.Devices
	}
	return m.Devices[local : local+1]
}

// World is the agreed membership of one generation.
type World struct {
	Job        JobID      `json:"job"`
	Generation Generation `json:"generation"`
	Members    []Member   `json:"members"` // in rank order; Members[0] hosts rank 0
	Master     Endpoint   `json:"master"`  // where rank 0 listens, for torch's MASTER_ADDR and MASTER_PORT
	BatchSize  int        `json:"batch_size"`
	// Nonce tells this generation from another of the same number: numbers come
	// again when etcd is restored from a backup. It cannot be foreseen. Empty in
	// plans of leaders that knew none, and where a member's agent knows none.
	Nonce string `json:"nonce,omitempty"`
}

// Processes returns how many workers there are, which is what scripts and
// checkpoints know as the world size: ranks are 0 … Processes()-1.
func (w World) Processes() int {
	n := 0
	for _, m := range w.Members {
		n += m.Processes()
	}
	return n
}

// Size returns how many devices the world has: what policies decide about.
func (w World) Size() int {
	n := 0
	for _, m := range w.Members {
		n += len(m.Devices)
	}
	return n
}

// Allocation returns what the world holds of the cluster, for the job given.
func (w World) Allocation(job JobID) Allocation {
	a := Allocation{Job: job, BatchSize: w.BatchSize, Placements: make([]Placement, len(w.Members))}
	for i, m := range w.Members {
		a.Placements[i] = Placement{Node: m.Node, Devices: m.Devices}
	}
	return a
}

// LedBy reports whether rank 0 is on that node.
func (w World) LedBy(node NodeID) bool { return len(w.Members) > 0 && w.Members[0].Node == node }

// Member returns node's part, and its index among the members (torch's GROUP_RANK).
func (w World) Member(node NodeID) (m Member, index int, ok bool) {
	i := slices.IndexFunc(w.Members, func(m Member) bool { return m.Node == node })
	if i < 0 {
		return Member{}, 0, false
	}
	return w.Members[i], i, true
}
