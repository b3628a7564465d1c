package devices

import (
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

const (
	occupantsLane agent.Lane = "occupants"
	usersLane     agent.Lane = "users"
)

// Strangers says how processes on a device are treated that are not Bellows's.
type Strangers string

// The ways to treat them.
const (
	// RefuseStrangers keeps new work from a device that others use.
	RefuseStrangers Strangers = "refuse"
	// IgnoreStrangers gives devices out whatever else is on them.
	IgnoreStrangers Strangers = "ignore"
	// AutoStrangers refuses; in a pid namespace of its own, where the driver's pids
	// mean nothing, it goes by the devices' memory alone.
	AutoStrangers Strangers = "auto"
)

// firstPIDs is the pid namespace that a machine boots with (PROC_PID_INIT_INO of
// the kernel), by whose pids the driver names processes.
const firstPIDs = "pid:[4026531836]"

// nameless reports whether the driver's pids are not this agent's.
func (s Strangers) nameless() bool {
	if s == RefuseStrangers {
		return false
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != firstPIDs
}

// occupants finds out whose the processes on the devices are. The loop owns it.
type occupants struct {
	*loop.Loop
	strangers Strangers
	runs      func() []Run
	shown     *lastLook

	looked bool // judged says something
	judged agent.Occupancy
	opaque map[record.JobGen]bool // generations whose processes could not be told
	users  users
}

// found is one process on a device, as attributed.
type found struct {
	agent.Guest

	uid uint32
}

// place is where a generation is.
type place struct {
	dir     string
	devices []cluster.DeviceID
}

// identified is whose the processes on the devices are.
type identified struct {
	guests map[int]found // by pid
	// opaque are the generations whose processes cannot be told, and why; undecided
	// their devices.
	opaque    map[record.JobGen]error
	undecided map[cluster.DeviceID]bool
}

// attribute finds out who the processes are that a look has found. It is done
// beside: it reads what the system shows of all processes.
func (oc *occupants) attribute(look *readings) {
	at := loop.Lane{What: occupantsLane}
	if look.survey.Simulated || oc.strangers == IgnoreStrangers {
		oc.looked = true
		oc.shown.keep(look)
		return
	}
	if oc.Busy(at) {
		oc.shown.keep(look)
		return
	}
	// Taken after the look: a process that was on a device then, and is of a
	// generation, is of one of these, or has ended.
	places := map[record.JobGen]place{}
	for _, r := range oc.runs() {
		if r.Present {
			places[r.Of] = place{r.Dir, r.Devices}
		}
	}
	nameless := oc.strangers.nameless()
	oc.Beside(at, func(context.Context) func() {
		who, err := identify(look.survey, places, nameless)
		return func() {
			if !oc.looked && nameless {
				oc.Log.Warn().Msg("this agent sees other pids than the driver, as in a container: other people's processes on devices show only by their memory")
			}
			oc.looked = true
			if err != nil {
				// Ours could be taken for strangers: what was known stands.
				oc.Log.Warn().Err(err).Msg("cannot tell whose the processes on the devices are")
				oc.shown.keep(look)
				return
			}
			oc.attributed(look, who, nameless)
		}
	})
}

// identify tells whose the processes are that a survey lists. Nothing is known of
// them where we are nameless: under their pids are other processes here.
func identify(s nvml.Survey, places map[record.JobGen]place, nameless bool) (identified, error) {
	who := identified{guests: map[int]found{}, opaque: map[record.JobGen]error{}, undecided: map[cluster.DeviceID]bool{}}
	if nameless {
		return who, nil
	}
	for _, r := range s.Devices {
		for _, p := range r.Processes {
			g := found{Guest: agent.Guest{PID: p.PID}}
			if seen, ok := proc.Inspect(p.PID); ok {
				g.Start, g.Command, g.uid = seen.StartTime, seen.Command, seen.UID
			}
			who.guests[p.PID] = g
		}
	}
	if len(who.guests) == 0 {
		return who, nil
	}
	runs := slices.Collect(maps.Keys(places))
	dirs := make([]string, len(runs))
	for i, jg := range runs {
		dirs[i] = places[jg].dir
	}
	lists, err := sweep.Inside(dirs)
	if err != nil {
		return identified{}, err
	}
	for i, inside := range lists {
		if inside.Err != nil {
			who.opaque[runs[i]] = inside.Err
			for _, d := range places[runs[i]].devices {
				who.undecided[d] = true
			}
		}
		for _, pid := range inside.PIDs {
			if g, listed := who.guests[pid]; listed {
				g.Run = runs[i]
				who.guests[pid] = g
			}
		}
	}
	return who, nil
}

// attributed judges what was found, and logs a change.
func (oc *occupants) attributed(look *readings, who identified, nameless bool) {
	for pid, g := range who.guests {
		if g.Start != 0 {
			g.User = oc.userName(g.uid)
			who.guests[pid] = g
		}
	}
	holders := map[cluster.DeviceID]record.JobGen{}
	for _, r := range oc.runs() {
		for _, d := range r.Devices {
			if r.Holds {
				holders[d] = r.Of
			}
		}
	}
	var looks []agent.Look
	for _, r := range look.survey.Devices {
		on := agent.Look{
			Device: r.ID, UsedBytes: r.MemoryUsedBytes, Holder: holders[r.ID], Nameless: nameless, Undecided: who.undecided[r.ID],
		}
		for _, p := range r.Processes {
			g := who.guests[p.PID].Guest
			g.PID, g.Graphics, g.MemoryBytes = p.PID, p.Graphics, p.MemoryBytes
			on.Guests = append(on.Guests, g)
		}
		looks = append(looks, on)
	}
	judged := agent.Occupy(oc.judged, looks, time.Now())
	if !judged.Same(oc.judged) {
		oc.Log.Warn().Str("occupants", judged.String()).Msg("who is on the devices has changed")
	}
	oc.judged = judged
	look.guests = who.guests
	oc.shown.keep(look)
	was := oc.opaque
	oc.opaque = map[record.JobGen]bool{}
	for jg, err := range who.opaque {
		oc.opaque[jg] = true
		if !was[jg] {
			log := oc.Logger(jg)
			log.Warn().Err(err).Msg("cannot tell who is on this generation's devices: what was known of them stands")
		}
	}
}

// askAgain is how long after a name could not be found out it is asked for again.
const askAgain = time.Minute

// users are people's names by uid.
type users map[uint32]userEntry

type userEntry struct {
	name  string // empty = not known
	asked time.Time
}

// of is a user's name, or what to call him until it is known; ask says that it
// should be asked for now.
func (u users) of(uid uint32, now time.Time) (name string, ask bool) {
	e, known := u[uid]
	if e.name != "" {
		return e.name, false
	}
	return "uid " + strconv.FormatUint(uint64(uid), 10), !known || now.Sub(e.asked) >= askAgain
}

// userName is a user's name once it is known: a directory service may take its
// time, which nothing here waits for, or be away for a while.
func (oc *occupants) userName(uid uint32) string {
	name, ask := oc.users.of(uid, time.Now())
	at := loop.Lane{What: usersLane}
	if ask && !oc.Busy(at) {
		oc.Beside(at, func(ctx context.Context) func() {
			found, err := userdb.Name(ctx, uid)
			return func() {
				e := userEntry{asked: time.Now()}
				if err == nil {
					e.name = found
				}
				oc.users[uid] = e
			}
		})
	}
	return name
}

// occupied is why a generation cannot have its devices here now; nil if it can.
func (oc *occupants) occupied(devices []cluster.DeviceID) *record.Failed {
	why := oc.judged.Of(devices)
	if why == "" {
		return nil
	}
	return &record.Failed{Kind: record.DeviceBusy, Rank: -1, Reason: why, At: time.Now()}
}
