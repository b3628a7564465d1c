package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	locksLane agent.Lane = "locks"
	// namedHolders is how many processes are named that have one lock open.
	namedHolders = 3
	// lockOutlived begins what is told of a lock that was cleared away.
	lockOutlived = "its lock outlived "
)

// oldLocks are the locks of devices that were still held when nothing of their
// generation lived any more, and that were cleared away.
type oldLocks struct {
	asked time.Time
	found []oldLock
}

type oldLock struct {
	device cluster.DeviceID
	of     record.JobGen
	text   string
}

// lookAtLocks looks now and then who holds locks that stand for nothing any more.
func (n *node) lookAtLocks() {
	at := lane{what: locksLane}
	if n.lanes[at] || time.Since(n.locks.asked) < n.cfg.lookEvery {
		return
	}
	n.locks.asked = time.Now()
	n.beside(at, func(context.Context) func() {
		found, err := shim.OldLocks(n.cfg.LockDir)
		return func() {
			if err != nil {
				n.log.Warn().Err(err).Msg("cannot look at all device locks")
			}
			n.sawLocks(found)
		}
	})
}

func (n *node) sawLocks(found []shim.OldLock) {
	known := map[oldLock]bool{}
	for _, l := range n.locks.found {
		known[l] = true
	}
	n.locks.found = nil
	for _, l := range found {
		jg := generationOf(l.Job, l.Generation)
		text := fmt.Sprintf("%sjob %s generation %d, %s: it was replaced and keeps no job away", lockOutlived, l.Job, l.Generation, n.openIn(l.Holders))
		next := oldLock{l.Device, jg, text}
		if !known[next] {
			log := n.logger(jg)
			log.Warn().Str("device", string(l.Device)).Msg(text)
		}
		n.locks.found = append(n.locks.found, next)
	}
}

// openIn names those who have a lock open.
func (n *node) openIn(holders []shim.Holder) string {
	if len(holders) == 0 {
		return "on its way over a socket, or open where this agent may not look"
	}
	var names []string
	for i, h := range holders {
		if i == namedHolders {
			names = append(names, "others")
			break
		}
		names = append(names, fmt.Sprintf("pid %d (%s) of %s", h.PID, h.Command, n.userName(h.UID)))
	}
	return "open in " + strings.Join(names, " and ")
}

// onDevices is what is to be said of each device.
func (l oldLocks) onDevices() map[cluster.DeviceID]string {
	said := map[cluster.DeviceID]string{}
	for _, o := range l.found {
		if said[o.device] == "" { // one is enough: the device is given out all the same
			said[o.device] = o.text
		}
	}
	return said
}

// tellOfLocks adds the locks that outlived a generation to the problems of its job.
// What has been said once stands: who holds a lock may be another in each look.
func (n *node) tellOfLocks(all map[cluster.JobID]record.Problem) {
	for _, o := range n.locks.found {
		p := all[o.of.Job]
		if n.runs[o.of] == nil && n.self().Acks[o.of] == nil || p.Generation > o.of.Generation {
			continue // nobody can see it any more, or something newer is said
		}
		text := fmt.Sprintf("device %s: %s", o.device, o.text)
		switch {
		case p.Generation < o.of.Generation || p.Text == "":
			all[o.of.Job] = record.Problem{Generation: o.of.Generation, Text: text, At: time.Now()}
		case !strings.Contains(p.Text, lockOutlived):
			p.Text += "; " + text
			all[o.of.Job] = p
		}
	}
}
