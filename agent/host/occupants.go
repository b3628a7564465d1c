package host

import (
	"context"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

const (
	occupantsLane agent.Lane = "occupants"
	usersLane     agent.Lane = "users"
)

// Strangers says what is made of processes on a device that are not Bellows's.
type Strangers string

// The ways to treat them.
const (
	// RefuseStrangers keeps new work from a device that somebody else uses.
	RefuseStrangers Strangers = "refuse"
	// IgnoreStrangers gives devices out whoever else is on them.
	IgnoreStrangers Strangers = "ignore"
	// AutoStrangers refuses; in a pid namespace of its own, where the driver's pids
	// mean nothing, it goes by the devices' memory alone.
	AutoStrangers Strangers = "auto"
)

// firstPIDs is the pid namespace that a machine boots with (PROC_PID_INIT_INO of
// the kernel), by whose pids the driver names processes.
const firstPIDs = "pid:[4026531836]"

// nameless reports whether the driver's pids are not this agent's.
func (c Config) nameless() bool {
	if c.Strangers == RefuseStrangers {
		return false
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != firstPIDs
}

// occupants is who was found on the devices.
type occupants struct {
	looked bool // judged says something
	judged agent.Occupancy
	users  map[uint32]string // names by uid; empty = asked for
}

// found is one process on a device, as attributed.
type found struct {
	agent.Guest

	uid uint32
}

// attribute finds out who the processes are that a look has found. It is done
// beside: it reads what the system shows of all processes.
func (n *node) attribute(s nvml.Survey) {
	at := lane{what: occupantsLane}
	if s.Simulated || n.cfg.Strangers == IgnoreStrangers {
		n.occupants.looked = true
		return
	}
	if n.lanes[at] {
		return
	}
	// Taken after the look: whoever was on a device then, and is of a generation,
	// is of one of these, or has ended.
	dirs := map[record.JobGen]string{}
	for jg, r := range n.runs {
		if r.shim != agent.Absent {
			dirs[jg] = r.dir
		}
	}
	n.beside(at, func(context.Context) func() {
		guests, err := identify(s, dirs)
		return func() {
			if !n.occupants.looked && n.cfg.nameless() {
				n.log.Warn().Msg("this agent sees other pids than the driver, as in a container: other people's processes on devices show only by their memory")
			}
			n.occupants.looked = true
			if err != nil {
				// Ours could be taken for strangers: what was known stands.
				n.log.Warn().Err(err).Msg("cannot tell whose the processes on the devices are")
				return
			}
			n.attributed(s, guests)
		}
	})
}

// identify tells whose the processes are that a survey lists, by device.
func identify(s nvml.Survey, dirs map[record.JobGen]string) (map[cluster.DeviceID][]found, error) {
	guests, listed := map[cluster.DeviceID][]found{}, false
	for _, r := range s.Devices {
		for _, p := range r.Processes {
			listed = true
			g := found{Guest: agent.Guest{PID: p.PID, Graphics: p.Graphics, MemoryBytes: p.MemoryBytes}}
			if seen, ok := shim.LookAt(p.PID); ok {
				g.Start, g.Command, g.uid = seen.StartTime, seen.Command, seen.UID
			}
			guests[r.ID] = append(guests[r.ID], g)
		}
	}
	if !listed {
		return guests, nil
	}
	runs := slices.Collect(maps.Keys(dirs))
	paths := make([]string, len(runs))
	for i, jg := range runs {
		paths[i] = dirs[jg]
	}
	lists, err := shim.Inside(paths)
	if err != nil {
		return nil, err
	}
	inside := map[int]record.JobGen{}
	for i, pids := range lists {
		for _, pid := range pids {
			inside[pid] = runs[i]
		}
	}
	for _, list := range guests {
		for i := range list {
			list[i].Run = inside[list[i].PID]
		}
	}
	return guests, nil
}

// attributed judges what was found, and tells people of a change.
func (n *node) attributed(s nvml.Survey, guests map[cluster.DeviceID][]found) {
	holders, nameless := n.holders(), n.cfg.nameless()
	var looks []agent.Look
	for _, r := range s.Devices {
		look := agent.Look{Device: r.ID, UsedBytes: r.MemoryUsedBytes, Holder: holders[r.ID], Nameless: nameless}
		for i := range guests[r.ID] {
			g := &guests[r.ID][i]
			if g.Start != 0 {
				g.User = n.userName(g.uid)
			}
			look.Guests = append(look.Guests, g.Guest)
		}
		looks = append(looks, look)
	}
	judged := agent.Occupy(n.occupants.judged, looks, time.Now())
	if !judged.Same(n.occupants.judged) {
		n.log.Warn().Str("occupants", judged.String()).Msg("who is on the devices has changed")
	}
	n.occupants.judged = judged
	if last := n.devices.read.Load(); last != nil {
		n.devices.read.Store(&readings{at: last.at, survey: last.survey, guests: guests})
	}
	for _, r := range n.runs {
		member, _, _ := r.order.World.Member(n.cfg.Node)
		r.shared = ""
		if r.shim != agent.Absent && (r.report == nil || r.report.Stopped == nil) {
			r.shared = judged.Of(member.Devices)
		}
	}
}

// holders are the generations here that may have processes, by their devices.
func (n *node) holders() map[cluster.DeviceID]record.JobGen {
	holders := map[cluster.DeviceID]record.JobGen{}
	for jg, r := range n.runs {
		if r.shim == agent.Absent || r.report != nil && r.report.Stopped != nil {
			continue
		}
		member, _, _ := r.order.World.Member(n.cfg.Node)
		for _, d := range member.Devices {
			holders[d] = jg
		}
	}
	return holders
}

// userName is a user's name once it is known: a directory service may take its
// time, which nothing here waits for.
func (n *node) userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	name, asked := n.occupants.users[uid]
	if name != "" {
		return name
	}
	at := lane{what: usersLane}
	if !asked && !n.lanes[at] {
		if n.occupants.users == nil {
			n.occupants.users = map[uint32]string{}
		}
		n.occupants.users[uid] = ""
		n.beside(at, func(context.Context) func() {
			u, err := user.LookupId(id)
			return func() {
				if err == nil {
					n.occupants.users[uid] = u.Username
				}
			}
		})
	}
	return "uid " + id
}

// occupied is why a generation cannot have its devices here now; nil if it can.
func (n *node) occupied(devices []cluster.DeviceID) *record.Failed {
	why := n.occupants.judged.Of(devices)
	if why == "" {
		return nil
	}
	return &record.Failed{Kind: record.DeviceBusy, Rank: -1, Reason: why, At: time.Now()}
}

// lookSoon lets the devices be looked at with the next tick.
func (n *node) lookSoon() { n.devices.asked = time.Time{} }
