package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
)

// Bind puts the whole order of a prepared run into its directory, durable: what the
// shim carries out once a Wish with Start arrives. It differs from the order that the run
// was prepared with in what a plan decides only: the world's members and master, the
// checkpoint, the training, the devices' files. It may be repeated with the same order;
// with another plan, or for another run, it is an error, and the run stays as it was.
func Bind(dir string, order run.Order) error {
	fail := func(err error) error {
		return fmt.Errorf("bind the prepared run of %s generation %d: %w", order.World.Job, order.World.Generation, err)
	}
	prepared, err := rundir.ReadOrder(dir)
	if err != nil {
		return fail(err)
	}
	if err = errors.Join(checkBinding(prepared, order), order.Check()); err != nil {
		return fail(err)
	}
	if len(prepared.World.Members) > 0 {
		if !sameJSON(prepared, order) {
			return fail(errors.New("it has another plan already: a generation has one"))
		}
		return nil
	}
	if err = durable.WriteJSON(filepath.Join(dir, rundir.OrderFile), order); err != nil {
		return fail(err)
	}
	return nil
}

// checkBinding refuses an order that is not the prepared one with a plan.
func checkBinding(prepared, order run.Order) error {
	switch {
	case prepared.Prepare == nil:
		return errors.New("it was not prepared: it has its plan since its start")
	case order.Prepare == nil || len(order.World.Members) == 0:
		return errors.New("the order has no plan for a prepared run")
	case !sameJSON(unplanned(prepared), unplanned(order)):
		return errors.New("the order is of another run, or for another command, environment or owner: start it without the prepared one")
	}
	return nil
}

// unplanned is an order without what a plan, or the state of the node at its start, decides.
func unplanned(o run.Order) run.Order {
	// Of the spec what workers are executed with: orders of earlier versions have no more of it.
	o.Spec = cluster.Spec{Command: o.Command, Workdir: o.Workdir, Env: o.Env, EnvFile: o.EnvFile, Progress: o.Progress, NoNewPrivs: o.NoNewPrivs}
	o.World.Members, o.World.BatchSize = nil, 0
	o.World.Master.Host, o.World.Master.Port = "", 0
	o.Checkpoint, o.Resume, o.RestartCount = "", nil, 0
	o.Training, o.LogDir = run.Training{}, ""
	o.DeviceFiles, o.Processes, o.Interface, o.Bound, o.Deadline = nil, 0, "", "", 0
	return o
}

func sameJSON(a, b run.Order) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// readPlan runs beside the loop: the directory's disk may hang.
func (m *machine) readPlan(prepared run.Order) {
	order, err := rundir.ReadOrder(m.dir)
	if err == nil {
		err = errors.Join(checkBinding(prepared, order), order.Check())
	}
	if err != nil {
		err = fmt.Errorf("start the prepared run: %w", err)
	}
	m.post(func() {
		m.facts.Plan = run.Plan{Task: run.Task{Done: true, Failed: precheck.Failed(err)}, Order: order}
	})
}

// bind takes the plan in: who the workers are, and what holds them within bounds. It
// reads and writes only the kernel's own files.
func (m *machine) bind(order run.Order) {
	m.order = order
	m.member, _, _ = order.World.Member(order.Node)
	ranks := m.member.Ranks()
	m.workers, m.facts.Workers = nil, make([]run.Worker, len(ranks))
	for local, rank := range ranks {
		m.workers = append(m.workers, &worker{rank: rank, device: m.member.DevicesOf(local)[0], fact: &m.facts.Workers[local]})
	}
	m.facts.Binding.DeviceFiles = m.containment.KeepDevices(order.DeviceFiles)
	if err := m.containment.Limit(order.Limits, order.Processes, m.member); err != nil {
		m.facts.Binding.Failed = &record.Failed{Kind: record.NodeRefused, Reason: err.Error()}
	}
	m.facts.Binding.Processes = m.containment.Processes
}

// recordGroups has the run record name the groups that bind has made, before any
// worker is executed in them.
func (m *machine) recordGroups(rec rundir.Record) {
	err := rundir.RewriteRecord(m.dir, rec)
	m.post(func() {
		m.facts.Binding.Task = run.Task{Done: true, Failed: precheck.Failed(err)}
	})
}
