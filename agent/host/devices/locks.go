package devices

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	locksLane agent.Lane = "locks"
	// namedHolders is how many processes are named that have one lock open.
	namedHolders = 3
)

// oldLocks are the locks of devices that were still held when nothing of their
// generation lived any more, and that were cleared away.
type oldLocks struct {
	*loop.Loop
	dir      string
	every    time.Duration
	userName func(uid uint32) string

	asked time.Time
	found []oldLock
}

type oldLock struct {
	device cluster.DeviceID
	of     record.JobGen
	text   string
}

// look looks now and then who holds locks that stand for nothing any more.
func (ls *oldLocks) look() {
	at := loop.Lane{What: locksLane}
	if ls.Busy(at) || time.Since(ls.asked) < ls.every {
		return
	}
	ls.asked = time.Now()
	ls.Beside(at, func(context.Context) func() {
		found, err := devicelock.OldLocks(ls.dir)
		return func() {
			if err != nil {
				ls.Log.Warn().Err(err).Msg("cannot look at all device locks")
			}
			ls.note(found)
		}
	})
}

func (ls *oldLocks) note(found []devicelock.OldLock) {
	known := map[oldLock]bool{}
	for _, l := range ls.found {
		known[l] = true
	}
	ls.found = nil
	for _, l := range found {
		jg := record.JobGen{Job: l.Job, Generation: l.Generation}
		text := fmt.Sprintf("its lock outlived job %s generation %d, %s: it was replaced and keeps no job away", l.Job, l.Generation, ls.openIn(l.Holders))
		next := oldLock{l.Device, jg, text}
		if !known[next] {
			log := ls.Logger(jg)
			log.Warn().Str("device", string(l.Device)).Msg(text)
		}
		ls.found = append(ls.found, next)
	}
}

// openIn names those who have a lock open.
func (ls *oldLocks) openIn(holders []devicelock.Holder) string {
	if len(holders) == 0 {
		return "on its way over a socket, or open where this agent may not look"
	}
	var names []string
	for i, h := range holders {
		if i == namedHolders {
			names = append(names, "others")
			break
		}
		names = append(names, fmt.Sprintf("pid %d (%s) of %s", h.PID, h.Command, ls.userName(h.UID)))
	}
	return "open in " + strings.Join(names, " and ")
}

// onDevices is what is to be said of each device.
func (ls *oldLocks) onDevices() map[cluster.DeviceID]string {
	said := map[cluster.DeviceID]string{}
	for _, o := range ls.found {
		if said[o.device] == "" { // one is enough: the device is given out all the same
			said[o.device] = o.text
		}
	}
	return said
}

// addTo adds the locks that outlived a generation to the problems of its job.
// What has been said once stands: who holds a lock may be another in each look.
func (ls *oldLocks) addTo(all map[cluster.JobID]record.Problem, shown func(record.JobGen) bool) {
	for _, o := range ls.found {
		p := all[o.of.Job]
		if !shown(o.of) || p.Generation > o.of.Generation {
			continue // its generation is not shown any more, or something newer is
		}
		text := fmt.Sprintf("device %s: %s", o.device, o.text)
		switch {
		case p.Generation < o.of.Generation || p.Text == "":
			all[o.of.Job] = record.Problem{Generation: o.of.Generation, Text: text, Lock: true, At: time.Now()}
		case !p.Lock:
			p.Text, p.Lock = p.Text+"; "+text, true
			all[o.of.Job] = p
		}
	}
}
