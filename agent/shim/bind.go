package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bellows-ml/bellows/agent/run"
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
	prepared, err := readOrder(dir)
	if err != nil {
		return fail(err)
	}
	if err = errors.Join(checkBinding(prepared, order), checkOrder(order)); err != nil {
		return fail(err)
	}
	if len(prepared.World.Members) > 0 {
		if !sameJSON(prepared, order) {
			return fail(errors.New("it has another plan already: a generation has one"))
		}
		return nil
	}
	if err = writeDurable(filepath.Join(dir, orderFile), order); err != nil {
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
	o.World.Members, o.World.BatchSize = nil, 0
	o.World.Master.Host, o.World.Master.Port = "", 0
	o.Checkpoint, o.Resume, o.RestartCount = "", nil, 0
	o.Training, o.Steps, o.LogDir = run.Training{}, 0, ""
	o.DeviceFiles, o.Processes, o.Interface, o.Bound, o.Deadline = nil, 0, "", "", 0
	return o
}

func sameJSON(a, b run.Order) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// binder waits for the plan of a prepared run. The loop owns it.
type binder struct {
	*shared
	*reporter

	killer  *killer
	starter *starter

	by int64 // when the order has to be read; 0 = it is not being read
}

// stepBind goes from a prepared run to one that starts, or to its end.
func (b *binder) stepBind(now int64) {
	switch {
	case b.phase != unbound || b.killer.why != "":
	case b.wish.Retire:
		b.killer.kill("cleared before it was told to start")
	case b.wish.Start && b.by == 0:
		b.by = now + int64(prepareBound)
		b.alarm.at(b.by)
		b.waiting("reading the plan")
		go b.read(b.order)
	case b.by != 0 && now >= b.by:
		b.killer.fail(record.Transient, fmt.Sprintf("no answer within %s: %s", prepareBound, b.report.Waiting))
	case b.by != 0:
		b.alarm.at(b.by)
	}
}

// read runs beside the loop: the directory's disk may hang.
func (b *binder) read(prepared run.Order) {
	order, err := readOrder(b.dir)
	if err == nil {
		err = errors.Join(checkBinding(prepared, order), checkOrder(order))
	}
	b.post(func() {
		switch {
		case b.phase != unbound || b.killer.why != "":
		case err != nil:
			b.killer.failBy(fmt.Errorf("start the prepared run: %w", err))
		default:
			b.bind(order)
			b.recordGroups()
		}
	})
}

// bind takes the plan in: who the workers are, and what holds them within bounds. It
// reads and writes only the kernel's own files.
func (b *binder) bind(order run.Order) {
	b.order = order
	b.member, _, _ = order.World.Member(order.Node)
	b.workers = nil
	for local, rank := range b.member.Ranks() {
		b.workers = append(b.workers, &worker{Worker: record.Worker{Rank: rank, Device: b.member.DevicesOf(local)[0]}})
	}
	group := cgroupName(order, b.dir)
	b.report.DeviceFiles = b.containment.keepDevices(group, order.DeviceFiles)
	b.dirty = true
	if b.killer.why != "" {
		return
	}
	if err := b.containment.limit(group, order, b.member); err != nil {
		b.killer.fail(record.NodeRefused, err.Error())
	}
	b.report.Processes = b.containment.processes
}

// recordGroups has the run record name the groups that bind has made, before any
// worker is executed in them.
func (b *binder) recordGroups() {
	rec := b.record()
	go func() {
		err := rewriteRecord(b.dir, rec)
		b.post(func() {
			switch {
			case b.phase != unbound || b.killer.why != "":
			case err != nil:
				b.killer.failBy(err)
			default:
				b.waiting("")
				b.starter.begin()
			}
		})
	}()
}

// rewriteRecord adds to the run record which groups were made after the run was claimed.
func rewriteRecord(dir string, rec runRecord) error {
	now, err := readRecord(dir)
	if err == nil && now.Shim != rec.Shim {
		err = errClaimed
	}
	if err == nil {
		err = writeDurable(filepath.Join(dir, shimFile), rec)
	}
	if err != nil {
		return fmt.Errorf("write run record: %w", err)
	}
	return nil
}
