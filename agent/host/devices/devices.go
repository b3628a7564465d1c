package devices

import (
	"context"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

const (
	// blindFor is how long the devices may not be looked at before they count as
	// sick: longer than the driver takes to be reloaded.
	blindFor = 2 * time.Minute

	devicesLane agent.Lane = "devices"
)

// Config says which devices a node has, and how they are looked at.
type Config struct {
	Source nvml.Source
	// Groups are the groups of its devices, instead of those that the driver knows; zero = none are told.
	Groups       cluster.DeviceGroups
	Location     string // cluster.Node.Location
	PricePerHour float64
	Strangers    Strangers // empty = AutoStrangers
	LockDir      string    // of the devices' locks
	Files        string    // how workers are kept from devices that are not theirs, by contain.TryDevices
	// Interface is the network interface that workers meet on; empty = they find one by themselves, from Bind's on.
	Interface string
	Bind      string        // the node's IP address
	LookEvery time.Duration // how often the devices and their locks are looked at
}

// Run is a generation on this node, as far as its devices are concerned.
type Run struct {
	Of      record.JobGen
	Dir     string // the run directory
	Devices []cluster.DeviceID
	Present bool // it has a shim, or had one
	Holds   bool // it may have processes on its devices
	Stuck   bool // SIGKILL does not end its processes
	Unswept bool // its shim has died, and it is not known what is left
}

// Devices surveys a node's devices. The loop owns it, but for Shown.
type Devices struct {
	*loop.Loop
	cfg  Config
	runs func() []Run

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

// New returns what looks at a node's devices. Runs lists the generations that are here; the loop calls it.
func New(l *loop.Loop, cfg Config, runs func() []Run) *Devices {
	shown := &lastLook{}
	oc := &occupants{Loop: l, strangers: cfg.Strangers, runs: runs, shown: shown, users: users{}}
	return &Devices{
		Loop: l, cfg: cfg, runs: runs, occupants: oc, shown: shown,
		network: &network{Loop: l, name: cfg.Interface, bind: cfg.Bind},
		locks:   &oldLocks{Loop: l, dir: cfg.LockDir, every: cfg.LookEvery, userName: oc.userName},
		files:   files{how: cfg.Files},
	}
}

// Look looks at all that is due to be looked at.
func (ds *Devices) Look() {
	ds.survey()
	ds.network.look()
	ds.locks.look()
}

// Soon lets the devices be looked at with the next Look.
func (ds *Devices) Soon() { ds.asked = time.Time{} }

// Shown is what the devices were doing when they were last looked at. Any goroutine may call it.
func (ds *Devices) Shown() api.NodeReadings { return ds.shown.readings() }

// Bound is the interface with the address of the node, where none was named for training; empty = not known, or the
// address is for this machine alone.
func (ds *Devices) Bound() string { return ds.network.bound }

// Files is what a shim is told of the devices' files for a run with these devices; nil = they have none.
func (ds *Devices) Files(devices []cluster.DeviceID) *run.DeviceFiles { return ds.files.of(devices) }

// Occupied is why a generation cannot have these devices here now; nil if it can.
func (ds *Devices) Occupied(devices []cluster.DeviceID) *record.Failed {
	return ds.occupants.occupied(devices)
}

// Others names the processes of others on devices, for people; "" = there are none.
func (ds *Devices) Others(devices []cluster.DeviceID) string { return ds.occupants.judged.Of(devices) }

// OldLocks adds the locks that outlived a generation to the problems of its job, by shown, which tells whether a
// generation is shown at all.
func (ds *Devices) OldLocks(all map[cluster.JobID]record.Problem, shown func(record.JobGen) bool) {
	ds.locks.addTo(all, shown)
}

// survey looks at the devices now and then.
func (ds *Devices) survey() {
	at := loop.Lane{What: devicesLane}
	if ds.Busy(at) || time.Since(ds.asked) < ds.cfg.LookEvery {
		return
	}
	ds.asked = time.Now()
	ds.Beside(at, func(ctx context.Context) func() {
		survey, err := ds.cfg.Source.Survey(ctx)
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
func (ds *Devices) surveyed(s nvml.Survey, err error) {
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
				if why := ds.cfg.Groups.Apply(seen.Devices); why != "" {
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
		ds.Log.Error().Str("problem", seen.Problem).Msg("devices are missing")
	}
	ds.seen = &seen
}

// known are the devices that were seen last, for the caller to change.
func (ds *Devices) known() []cluster.Device {
	if ds.seen == nil {
		return nil
	}
	return slices.Clone(ds.seen.Devices)
}

// blind reports whether looks have failed for so long that devices count as sick.
func (ds *Devices) blind() bool {
	return !ds.failing.IsZero() && time.Since(ds.failing) > blindFor
}

func sicken(devices []cluster.Device) {
	for i := range devices {
		devices[i].Health, devices[i].Problem = cluster.Unhealthy, "cannot be looked at"
	}
}

// adopted are the devices of the runs that this agent has found here, as its
// predecessor has recorded them: all that it knows of while it cannot look itself.
func (ds *Devices) adopted(recorded record.Inventory, taken map[cluster.DeviceID]bool) []cluster.Device {
	if ds.unseen == "" && ds.failing.IsZero() {
		return nil
	}
	devices := slices.DeleteFunc(slices.Clone(recorded.Devices), func(d cluster.Device) bool { return !taken[d.ID] })
	if ds.blind() {
		sicken(devices)
	}
	return devices
}

// Inventory is what the node has to give. It is not known before all has been looked at once. Recorded is what was
// recorded before; unscanned says that it is not known yet which runs are here.
func (ds *Devices) Inventory(recorded record.Inventory, unscanned bool) (inventory record.Inventory, known bool) {
	if ds.seen == nil || ds.network.networked() && !ds.network.looked || !ds.occupants.looked && ds.failing.IsZero() {
		return record.Inventory{}, false
	}
	return ds.stock(recorded, unscanned).Inventory(), true
}

// stock is what is known of the node's devices.
func (ds *Devices) stock(recorded record.Inventory, unscanned bool) agent.Stock {
	s := agent.Stock{
		Devices: ds.seen.Devices, Problem: ds.seen.Problem, Location: ds.cfg.Location, TopologyProblem: ds.seen.TopologyProblem, Addr: ds.network.addr, Cut: ds.network.problem,
		Unseen: ds.unseen, Occupied: ds.occupants.judged.Problems, Locks: ds.locks.onDevices(), Files: ds.files.enforced(),
		PricePerHour: ds.cfg.PricePerHour,
		Taken:        map[cluster.DeviceID]bool{}, Stuck: map[cluster.DeviceID]cluster.JobID{},
		Unswept: map[cluster.DeviceID]bool{}, Recorded: recorded,
	}
	for _, d := range s.Devices {
		s.Unswept[d.ID] = unscanned
	}
	for _, r := range ds.runs() {
		if !r.Holds {
			continue
		}
		for _, d := range r.Devices {
			s.Taken[d] = true
			if r.Stuck {
				s.Stuck[d] = r.Of.Job
			}
			s.Unswept[d] = s.Unswept[d] || r.Unswept
		}
	}
	if len(s.Devices) == 0 {
		s.Devices = ds.adopted(recorded, s.Taken)
	}
	return s
}
