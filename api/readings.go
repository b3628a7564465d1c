package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

const (
	// readingsWait is how long all nodes together have to say what their devices
	// are doing: a person waits, and one that is frozen would never say.
	readingsWait = 2 * time.Second
	// readingsAtOnce bounds how many nodes are asked at the same time.
	readingsAtOnce = 32
)

// NodeReadings is what a node's devices were doing when its agent last looked. It is
// read when a request asks for it, and recorded nowhere.
type NodeReadings struct {
	// AgeS is how many seconds ago that was. Not a time: clocks of nodes differ.
	AgeS    float64         `json:"age_s"`
	Driver  string          `json:"driver,omitempty"` // version
	Devices []DeviceReading `json:"devices"`
	// Places says where each device is, also one that says nothing any more; Links
	// how those that answer reach each other, each pair once.
	Places []DevicePlace `json:"places,omitempty"`
	Links  []DeviceLink  `json:"links,omitempty"`
	// Now is what the answering agent's clock says.
	Now time.Time `json:"now,omitzero"`
	// Missing says why there is nothing to read, in a few words.
	Missing   string `json:"missing,omitempty"`
	Simulated bool   `json:"simulated,omitempty"` // the devices exist in name only

	ahead *float64 // of the asking node's clock, in seconds; nil = unknown
}

// DeviceReading is one device's; what is unknown is left out.
type DeviceReading struct {
	ID              string   `json:"id"`
	BusyPercent     *int     `json:"busy_percent,omitempty"` // of the last sample period, in which a kernel ran
	MemoryUsedBytes uint64   `json:"memory_used_bytes"`
	TemperatureC    *int     `json:"temperature_c,omitempty"`
	Slowed          string   `json:"slowed,omitempty"`          // what makes the hardware slower than its clocks
	UncorrectedECC  *uint64  `json:"uncorrected_ecc,omitempty"` // memory errors since the driver was loaded
	Warning         string   `json:"warning,omitempty"`         // what the driver advises that can wait
	LastXid         *LastXid `json:"last_xid,omitempty"`
	// Processes are those that the driver lists on it.
	Processes []DeviceProcess `json:"processes,omitempty"`
}

// DevicePlace is where a device is, for an operator who has to reset or replace it.
type DevicePlace struct {
	ID    string `json:"id"`
	Index int    `json:"index"`               // as nvidia-smi counts; moves with the next boot
	PCI   string `json:"pci,omitempty"`       // domain:bus:device.function
	NUMA  *int   `json:"numa_node,omitempty"` // nil = unknown, or none
}

// DeviceLink is how two devices reach each other.
type DeviceLink struct {
	A       string `json:"a"`
	B       string `json:"b"`
	NVLinks int    `json:"nvlinks,omitempty"` // links, directly or through a switch
	// Path is the way over PCIe, in nvidia-smi's words: PIX, PXB, PHB, NODE or SYS; empty = unknown.
	Path string `json:"path,omitempty"`
}

// LastXid is the driver's last critical error on a device, by NVIDIA's numbers.
type LastXid struct {
	Code uint64  `json:"code"`
	AgeS float64 `json:"age_s"` // seconds since it was noticed
}

// DeviceProcess is a process on a device.
type DeviceProcess struct {
	PID         int    `json:"pid"`
	Command     string `json:"command,omitempty"` // the program's name; empty where the system shows no such process
	User        string `json:"user,omitempty"`
	Job         string `json:"job,omitempty"`          // whose it is; empty = a stranger, or not known
	MemoryBytes uint64 `json:"memory_bytes,omitempty"` // 0 = unknown
	Graphics    bool   `json:"graphics,omitempty"`     // it only draws
}

// deviceReader asks the agents of nodes what their devices are doing.
type deviceReader struct {
	cfg    *Config
	view   *view
	agents *agents
}

// handleReadings says what this node's own devices are doing.
func (d *deviceReader) handleReadings(w http.ResponseWriter, _ *http.Request) {
	r := d.own()
	r.Now = time.Now().UTC()
	writeJSON(w, http.StatusOK, r)
}

func (d *deviceReader) own() NodeReadings {
	if d.cfg.Readings == nil {
		return NodeReadings{Devices: []DeviceReading{}, Missing: "this agent reads none"}
	}
	return d.cfg.Readings()
}

// readings asks nodes, by where their agents answer, what their devices are
// doing. Those that cannot be asked say why.
func (d *deviceReader) ask(ctx context.Context, nodes map[cluster.NodeID]string) map[cluster.NodeID]NodeReadings {
	ctx, cancel := context.WithTimeout(ctx, readingsWait)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	all, turn := map[cluster.NodeID]NodeReadings{}, make(chan struct{}, readingsAtOnce)
	for id, at := range nodes {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			r, err := d.readingsOf(ctx, id, at)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				r = NodeReadings{Missing: fmt.Sprintf("no answer within %s", readingsWait)}
			case err != nil:
				r = NodeReadings{Missing: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			all[id] = r
		})
	}
	wg.Wait()
	return all
}

func (d *deviceReader) readingsOf(ctx context.Context, id cluster.NodeID, at string) (r NodeReadings, err error) {
	if id == d.cfg.Node {
		return d.own(), nil
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	c, err := d.agents.at(id, at)
	if err != nil {
		return r, err
	}
	sent := time.Now()
	if err := c.call(ctx, http.MethodGet, "/v1/node/readings", nil, &r); err != nil {
		return r, err
	}
	r.ahead = ahead(sent, r.Now, time.Now())
	return r, nil
}

// ahead is by how many seconds a clock that said now was ahead of ours, which
// said sent before and got after it; nil where it was between them, as far as can be told.
func ahead(sent, now, got time.Time) *float64 {
	took := got.Sub(sent)
	by := now.Sub(sent.Add(took / 2))
	if now.IsZero() || by.Abs() <= took/2 {
		return nil
	}
	seconds := by.Seconds()
	return &seconds
}

// addReadings completes the statuses of nodes that are in the cluster.
func (d *deviceReader) addToNodes(ctx context.Context, list []NodeStatus) {
	answers := d.ask(ctx, d.view.agents(func(id cluster.NodeID) bool { return true }))
	for i := range list {
		n := &list[i]
		r, ok := answers[cluster.NodeID(n.ID)]
		if !ok {
			continue
		}
		n.Driver, n.NoReadings, n.Simulated, n.Links, n.ClockAheadS = r.Driver, r.Missing, r.Simulated, r.Links, r.ahead
		for j := range n.Devices {
			n.Devices[j].Place = r.place(n.Devices[j].ID)
		}
		if r.Missing != "" {
			continue
		}
		n.ReadingsAgeS = &r.AgeS
		for j := range n.Devices {
			n.Devices[j].Reading = r.of(n.Devices[j].ID)
		}
	}
}

// addJobReadings completes a job's members with the readings of their own devices.
func (d *deviceReader) addToJob(ctx context.Context, job *JobStatus) {
	on := map[cluster.NodeID]bool{}
	for _, m := range job.Members {
		on[cluster.NodeID(m.Node)] = true
	}
	answers := d.ask(ctx, d.view.agents(func(id cluster.NodeID) bool { return on[id] }))
	for i := range job.Members {
		m := &job.Members[i]
		r := answers[cluster.NodeID(m.Node)]
		if m.NoReadings = r.Missing; r.Missing != "" {
			continue
		}
		m.ReadingsAgeS = &r.AgeS
		for _, d := range m.Devices {
			if x := r.of(d); x != nil {
				m.Readings = append(m.Readings, *x)
			}
		}
	}
}

func (r NodeReadings) place(device string) *DevicePlace {
	for i := range r.Places {
		if r.Places[i].ID == device {
			return &r.Places[i]
		}
	}
	return nil
}

func (r NodeReadings) of(device string) *DeviceReading {
	for i := range r.Devices {
		if r.Devices[i].ID == device {
			return &r.Devices[i]
		}
	}
	return nil
}
