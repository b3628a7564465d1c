package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// DoubtFor is how long a driver may list a process that the system does not
	// show, or memory of no listed process, before that counts: longer than it takes to
	// clear up after one that has ended.
	DoubtFor = 5 * time.Second
	// IdleMemory is what may be in use on a device on which no process computes: what
	// drivers and displays keep, less than what a training process takes at least.
	IdleMemory = 1 << 30
	// namedGuests is how many programs are named in one problem.
	namedGuests = 3
	// mpsServer is the beginning of what the kernel calls NVIDIA's servers for
	// sharing a device. They compute nothing; their clients are listed beside them.
	mpsServer = "nvidia-cuda-mps"
)

// Guest is a process that the driver lists on a device, as the system shows it.
type Guest struct {
	PID int
	// Start tells it from another of the same pid; 0 = the system shows no such
	// process: it has ended, or is hidden from this agent.
	Start       uint64
	Command     string
	User        string
	Run         record.JobGen // the generation here that it is inside of; zero = none
	Graphics    bool          // it only draws
	MemoryBytes uint64        // 0 = unknown
}

// Look is what was found on one device.
type Look struct {
	Device    cluster.DeviceID
	Guests    []Guest
	UsedBytes uint64        // memory
	Holder    record.JobGen // the generation here that has the device; zero = none
	// Nameless: the driver's pids are not this agent's, as in a container.
	Nameless bool
	// Undecided: who belongs there cannot be told this time; what was said stands.
	Undecided bool
}

// Occupancy is who is on a node's devices and should not be.
//
// What it says of a device is published, and whatever the node publishes makes the
// leader consider its jobs anew. So it changes only when others are there: it has
// no pids and no amounts, which may be others in each look. Those are in readings.
type Occupancy struct {
	Problems map[cluster.DeviceID]string
	doubts   map[doubt]time.Time // since when
	ours     map[int]once        // processes seen inside of generations, and on a device still
	names    map[int]title       // what processes on a device were called when they were first seen
}

// doubt is something on a device that may be over by the next look. pid 0 = its memory.
type doubt struct {
	device cluster.DeviceID
	pid    int
}

// once is what a process was when it was last seen inside of a generation.
type once struct {
	run     record.JobGen
	command string
	start   uint64
}

// title is a process's, which may rename itself as often as it likes.
type title struct {
	start   uint64
	command string
}

// Occupy judges what was found on all devices of the node, by what was found before.
//
// A process that computes belongs there if it is inside of the generation that
// has the device. One that the system shows and that is none counts at once, one
// that it does not show when it is still listed after DoubtFor. What only draws,
// and MPS servers, are ignored. Memory that is in use though no process is listed
// counts on devices that no generation has: that is all there is to go by where
// processes are hidden.
func Occupy(before Occupancy, looks []Look, now time.Time) Occupancy {
	after := Occupancy{
		Problems: map[cluster.DeviceID]string{}, doubts: map[doubt]time.Time{}, ours: map[int]once{}, names: map[int]title{},
	}
	for _, l := range looks {
		j := judge{before: before, after: after, look: l, now: now}
		if l.Undecided {
			j.stand()
			continue
		}
		j.processes()
		j.memory()
		if len(j.said) > 0 {
			after.Problems[l.Device] = strings.Join(j.said, "; ")
		}
	}
	return after
}

type judge struct {
	before, after Occupancy
	look          Look
	now           time.Time
	said          []string
	listed        bool // a process computes there
}

// lasting reports whether a doubt is no longer one.
func (j *judge) lasting(pid int) bool {
	d := doubt{j.look.Device, pid}
	since, known := j.before.doubts[d]
	if !known {
		since = j.now
	}
	j.after.doubts[d] = since
	return j.now.Sub(since) >= DoubtFor
}

// stand lets all that was known of the device stand.
func (j *judge) stand() {
	device := j.look.Device
	if said := j.before.Problems[device]; said != "" {
		j.after.Problems[device] = said
	}
	for d, since := range j.before.doubts {
		if d.device == device {
			j.after.doubts[d] = since
		}
	}
	for _, g := range j.look.Guests {
		if was, known := j.before.ours[g.PID]; known && (g.Start == 0 || g.Start == was.start) {
			j.after.ours[g.PID] = was
		}
		j.called(g)
	}
}

// called is what a guest was called when it was first seen.
func (j *judge) called(g Guest) string {
	was, known := j.before.names[g.PID]
	if !known || was.start != g.Start {
		was = title{g.Start, g.Command}
	}
	j.after.names[g.PID] = was
	return was.command
}

func (j *judge) processes() {
	if j.look.Nameless {
		return
	}
	var strangers []string
	for _, g := range j.look.Guests {
		if g.Graphics || strings.HasPrefix(g.Command, mpsServer) {
			continue
		}
		j.listed = true
		if g.Run != (record.JobGen{}) {
			j.after.ours[g.PID] = once{g.Run, g.Command, g.Start}
		} else if was, known := j.before.ours[g.PID]; known && (g.Start == 0 || g.Start == was.start) {
			j.after.ours[g.PID] = was
		}
		if text := j.stranger(g); text != "" {
			strangers = append(strangers, text)
		}
	}
	slices.Sort(strangers) // the driver lists them in any order
	strangers = slices.Compact(strangers)
	if len(strangers) > namedGuests {
		strangers = append(strangers[:namedGuests], "and others")
	}
	if len(strangers) > 0 {
		j.said = append(j.said, "in use by "+strings.Join(strangers, ", ")+": end what should not be there, and it is given out again")
	}
}

// stranger says who a guest is that does not belong there; "" if it does, or may.
func (j *judge) stranger(g Guest) string {
	was, known := j.after.ours[g.PID]
	command := j.called(g)
	switch {
	case g.Run == j.look.Holder && g.Run != (record.JobGen{}):
		return ""
	case g.Run != (record.JobGen{}):
		return fmt.Sprintf("%s of job %s, which has other devices", command, g.Run.Job)
	case g.Start != 0 && known:
		return fmt.Sprintf("%s of %s, left behind by job %s generation %d", command, g.User, was.run.Job, was.run.Generation)
	case g.Start != 0:
		return fmt.Sprintf("%s of %s", command, g.User)
	case !j.lasting(g.PID):
		return ""
	case known:
		return fmt.Sprintf("%s of job %s generation %d, which has ended and whose memory the driver has not given back",
			was.command, was.run.Job, was.run.Generation)
	default:
		return "a process that has ended or is hidden from this agent"
	}
}

func (j *judge) memory() {
	used := j.look.UsedBytes
	for _, g := range j.look.Guests {
		if g.Graphics || strings.HasPrefix(g.Command, mpsServer) {
			used -= min(used, g.MemoryBytes)
		}
	}
	if j.listed || j.look.Holder != (record.JobGen{}) || used <= IdleMemory {
		return
	}
	if j.lasting(0) {
		j.said = append(j.said, "its memory is in use, and no process is listed on it: see nvidia-smi, and whether containers hide their processes")
	}
}

// Of is what is to be said of devices, in their order.
func (o Occupancy) Of(devices []cluster.DeviceID) string {
	var all []string
	for _, d := range devices {
		if p := o.Problems[d]; p != "" {
			all = append(all, "device "+string(d)+": "+p)
		}
	}
	return strings.Join(all, "; ")
}

// Same reports whether the same is said of the same devices.
func (o Occupancy) Same(p Occupancy) bool { return maps.Equal(o.Problems, p.Problems) }

// String lists what is said, for logs.
func (o Occupancy) String() string {
	return cmp.Or(o.Of(slices.Sorted(maps.Keys(o.Problems))), "every process is where it may be")
}
