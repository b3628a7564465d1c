package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// readingsWait is how long all nodes together have to say what their devices
	// are doing: a person waits, and one that is frozen would never say.
	readingsWait = 2 * time.Second
	// readingsAtOnce bounds how many nodes are asked at the same time.
	readingsAtOnce = 32
)

// deviceReader asks the agents of nodes what their devices are doing.
type deviceReader struct {
	cfg    *Config
	view   *view
	agents *api.Agents
}

// handleReadings says what this node's own devices are doing.
func (d *deviceReader) handleReadings(w http.ResponseWriter, _ *http.Request) {
	r := d.own()
	r.Now = time.Now().UTC()
	writeJSON(w, http.StatusOK, r)
}

func (d *deviceReader) own() api.NodeReadings {
	if d.cfg.Readings == nil {
		return api.NodeReadings{Devices: []api.DeviceReading{}, Missing: "this agent reads none"}
	}
	return d.cfg.Readings()
}

// heard is what a node says of its devices.
type heard struct {
	api.NodeReadings

	ahead *float64 // of our clock, in seconds; nil = unknown
}

// ask asks nodes, by where their agents answer, what their devices are
// doing. Those that cannot be asked say why.
func (d *deviceReader) ask(ctx context.Context, nodes map[cluster.NodeID]string) map[cluster.NodeID]heard {
	ctx, cancel := context.WithTimeout(ctx, readingsWait)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	all, turn := map[cluster.NodeID]heard{}, make(chan struct{}, readingsAtOnce)
	for id, at := range nodes {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			r, err := d.readingsOf(ctx, id, at)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				r.NodeReadings = api.NodeReadings{Missing: fmt.Sprintf("no answer within %s", readingsWait)}
			case err != nil:
				r.NodeReadings = api.NodeReadings{Missing: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			all[id] = r
		})
	}
	wg.Wait()
	return all
}

func (d *deviceReader) readingsOf(ctx context.Context, id cluster.NodeID, at string) (r heard, err error) {
	if id == d.cfg.Node {
		return heard{NodeReadings: d.own()}, nil
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	sent := time.Now()
	if r.NodeReadings, err = d.agents.Readings(ctx, api.Agent{Node: id, Addr: at}); err != nil {
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

// addToNodes completes the statuses of nodes that are in the cluster.
func (d *deviceReader) addToNodes(ctx context.Context, list []api.NodeStatus) {
	answers := d.ask(ctx, d.view.agents(func(id cluster.NodeID) bool { return true }))
	for i := range list {
		n := &list[i]
		r, ok := answers[cluster.NodeID(n.ID)]
		if !ok {
			continue
		}
		n.Driver, n.NoReadings, n.Simulated, n.Links, n.ClockAheadS = r.Driver, r.Missing, r.Simulated, r.Links, r.ahead
		for j := range n.Devices {
			n.Devices[j].Place = r.Place(n.Devices[j].ID)
		}
		if r.Missing != "" {
			continue
		}
		n.ReadingsAgeS = &r.AgeS
		for j := range n.Devices {
			n.Devices[j].Reading = r.Of(n.Devices[j].ID)
		}
	}
}

// addToJob completes a job's members with the readings of their own devices.
func (d *deviceReader) addToJob(ctx context.Context, job *api.JobStatus) {
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
			if x := r.Of(d); x != nil {
				m.Readings = append(m.Readings, *x)
			}
		}
	}
}
