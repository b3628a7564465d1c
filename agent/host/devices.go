package host

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// devices surveys the node's devices and keeps the inventory record: what the node
// has to give. A survey runs beside the loop, which owns everything here.
type devices struct {
	*shared
	runs      *runs
	session   *session
	writer    *writer
	adoption  *adoption // tells whether it is known which runs are here
	occupants *occupants
	locks     *oldLocks
	network   *network
	shown     *lastLook
	files     files

	asked   time.Time
	failing time.Time         // since when surveys have failed; zero = the last one was answered
	unseen  string            // why the answer was that there is nothing to look with; empty = it was another
	seen    *record.Inventory // nil until the first answer
}

func newDevices(sh *shared, s *session, w *writer, ad *adoption) *devices {
	rs, shown := ad.runs, &lastLook{}
	oc := &occupants{shared: sh, runs: rs, shown: shown, users: users{}}
	return &devices{
		shared: sh, runs: rs, session: s, writer: w, adoption: ad, network: &network{shared: sh},
		occupants: oc, locks: &oldLocks{shared: sh, runs: rs, userName: oc.userName}, shown: shown,
	}
}

// survey looks at the devices now and then.
func (ds *devices) survey() {
	at := lane{what: devicesLane}
	if ds.lanes[at] || time.Since(ds.asked) < ds.cfg.lookEvery {
		return
	}
	ds.asked = time.Now()
	ds.beside(at, func(ctx context.Context) func() {
		survey, err := ds.cfg.Devices.Survey(ctx)
		looked := time.Now()
		return func() {
			ds.surveyed(survey, err)
			if err == nil {
				ds.occupants.attribute(&readings{at: looked, survey: survey})
			}
		}
	})
}

// surveyed takes in what a look at the devices has found. One that failed says
// nothing about the devices: those known stay as they are, and what runs on them
// runs on. Only when looks have failed for some time do they count as sick, so
// that their jobs save and move.
//
// A library that answers and refuses as a whole, as after an upgrade of the
// driver's package, says nothing about what runs either: workers that have the
// driver open go on. Only for something new there are no devices then.
func (ds *devices) surveyed(s nvml.Survey, err error) {
	seen := record.Inventory{Devices: s.Inventory(), Problem: s.Problem}
	if ds.seen != nil {
		seen.TopologyProblem = ds.seen.TopologyProblem // of the devices known
	}
	ds.unseen = ""
	if err == nil {
		ds.failing = time.Time{}
		if s.Refused {
			ds.unseen = s.Problem
			seen.Devices = ds.known()
		} else {
			ds.files.learn(s)
			if seen.TopologyProblem = ""; len(seen.Devices) > 0 {
				if why := ds.cfg.DeviceGroups.Apply(seen.Devices); why != "" {
					seen.TopologyProblem = why + "; name each device of the node once; until then its devices count as alike"
				}
			}
		}
	} else {
		if ds.failing.IsZero() {
			ds.failing = time.Now()
		}
		seen.Problem = err.Error()
		seen.Devices = ds.known()
		if ds.blind() {
			sicken(seen.Devices)
		}
	}
	if seen.Problem != "" && (ds.seen == nil || ds.seen.Problem != seen.Problem) {
		ds.log.Error().Str("problem", seen.Problem).Msg("devices are missing")
	}
	ds.seen = &seen
}

// known are the devices that were seen last, for the caller to change.
func (ds *devices) known() []cluster.Device {
	if ds.seen == nil {
		return nil
	}
	return slices.Clone(ds.seen.Devices)
}

// blind reports whether looks have failed for so long that devices count as sick.
func (ds *devices) blind() bool {
	return !ds.failing.IsZero() && time.Since(ds.failing) > blindFor
}

func sicken(devices []cluster.Device) {
	for i := range devices {
		devices[i].Health, devices[i].Problem = cluster.Unhealthy, "cannot be looked at"
	}
}

// adopted are the devices of the runs that this agent has found here, as its
// predecessor has recorded them: all that it knows of while it cannot look itself.
func (ds *devices) adopted(taken map[cluster.DeviceID]bool) []cluster.Device {
	if ds.unseen == "" && ds.failing.IsZero() {
		return nil
	}
	devices := slices.DeleteFunc(slices.Clone(ds.records.self().Inventory.Value.Devices), func(d cluster.Device) bool { return !taken[d.ID] })
	if ds.blind() {
		sicken(devices)
	}
	return devices
}

// writeInventory records what the node has to give.
func (ds *devices) writeInventory() {
	at := lane{what: inventoryLane}
	if ds.seen == nil || ds.session.presence.aliveRev == 0 || !ds.records.known(selfPart) || ds.lanes[at] ||
		ds.cfg.networked() && !ds.network.looked || !ds.occupants.looked && ds.failing.IsZero() {
		return
	}
	inventory := ds.stock().Inventory()
	recorded := ds.records.self().Inventory
	if recorded.Exists() && reflect.DeepEqual(recorded.Value, inventory) {
		return
	}
	ops := []record.Op{record.Put(record.InventoryKey(ds.cfg.Node), inventory)}
	for _, e := range agent.DeviceNews(recorded.Value, inventory) {
		ops = append(ops, ds.writer.tell(e))
	}
	ds.writer.replace(at, "inventory", ops...)
}

// stock is what is known of the node's devices.
func (ds *devices) stock() agent.Stock {
	s := agent.Stock{
		Devices: ds.seen.Devices, Problem: ds.seen.Problem, Location: ds.cfg.Location, TopologyProblem: ds.seen.TopologyProblem, Addr: ds.network.addr, Cut: ds.network.problem,
		Unseen: ds.unseen, Occupied: ds.occupants.judged.Problems, Locks: ds.locks.onDevices(), Files: ds.files.enforced(),
		PricePerHour: ds.cfg.PricePerHour,
		Taken:        map[cluster.DeviceID]bool{}, Stuck: map[cluster.DeviceID]cluster.JobID{},
		Unswept: map[cluster.DeviceID]bool{}, Recorded: ds.records.self().Inventory.Value,
	}
	for _, d := range s.Devices {
		s.Unswept[d.ID] = ds.adoption.unscanned != nil
	}
	for d, jg := range ds.runs.holders() {
		r := ds.runs.all[jg]
		s.Taken[d] = true
		if pids, _ := r.survivors(); len(pids) > 0 {
			s.Stuck[d] = jg.Job
		}
		s.Unswept[d] = s.Unswept[d] || r.shim == agent.Dead && !r.sweep.done && r.sweep.unkillable == nil
	}
	if len(s.Devices) == 0 {
		s.Devices = ds.adopted(s.Taken)
	}
	return s
}

// surveySoon lets the devices be looked at with the next tick.
func (ds *devices) surveySoon() { ds.asked = time.Time{} }
