package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// decisions is where asking and deciding stands, and what the last decisions granted:
//
//	something changed ──► interval over ──► ask ──► Decided ──► targets
//	a job waits and devices are idle ──► ask Between ──┘
type decisions struct {
	targets map[cluster.JobID]target
	devices map[cluster.DeviceID]cluster.JobID // of the targets

	asked *allocator.Input // waiting for its answer
	last  time.Time        // when the last full question was asked
	// inherited: not by this term, which has asked none yet.
	inherited bool
	full      *allocator.Input // that question, to be asked again only when it is another
	idle      *allocator.Input // the last one asked between
	void      bool             // something that was granted since could not be had: ask again, though not at once
	memory    []byte           // the policy's own
	fault     string           // why the last question got no answer

	moves        []record.Move // decided and not yet recorded
	value, bound float64

	migrated time.Time // when a job was last moved for another

	reviewed reviewed // when the plan of promises was last looked at
	served   int64    // revision of that plan when the last full question was asked

	known   bool      // nothing is to be asked while the view is as it was
	version uint64    // of that view
	again   time.Time // before this; zero = as long as the view stays so
}

func newDecisions() *decisions {
	return &decisions{targets: map[cluster.JobID]target{}, devices: map[cluster.DeviceID]cluster.JobID{}}
}

// granted returns what a job was granted; false if no decision was made about it.
func (d *decisions) granted(job cluster.JobID) (target, bool) {
	t, ok := d.targets[job]
	return t, ok
}

// grant notes what a job gets.
func (d *decisions) grant(job cluster.JobID, t target) {
	d.withdraw(job)
	d.targets[job] = t
	for _, p := range t.Placements {
		for _, device := range p.Devices {
			d.devices[device] = job
		}
	}
}

// withdraw forgets what a job was granted.
func (d *decisions) withdraw(job cluster.JobID) {
	for _, p := range d.targets[job].Placements {
		for _, device := range p.Devices {
			if d.devices[device] == job {
				delete(d.devices, device)
			}
		}
	}
	delete(d.targets, job)
}

// withdrawOthers forgets what all jobs were granted but these.
func (d *decisions) withdrawOthers(than map[cluster.JobID]target) {
	for job := range d.targets {
		if _, ok := than[job]; !ok {
			d.withdraw(job)
		}
	}
}

// promised reports whether a decision has granted the device to a job other than this.
func (d *decisions) promised(device cluster.DeviceID, job cluster.JobID) bool {
	id, ok := d.devices[device]
	return ok && id != job
}

// asking reports whether a question waits for its answer.
func (d *decisions) asking() bool { return d.asked != nil }

// askAnew lets the next question be one that was asked before.
func (d *decisions) askAnew() { d.full, d.idle = nil, nil }

// noneDue notes that nothing is to be asked before the view changes, or that time has come.
func (d *decisions) noneDue(v *view) { d.known, d.version, d.again = true, v.version, time.Time{} }

// noneDueUntil reports whether that is so; until when is zero where only a change ends it.
func (d *decisions) noneDueUntil(v *view, clock time.Time) (until time.Time, ok bool) {
	return d.again, d.known && d.version == v.version && (d.again.IsZero() || clock.Before(d.again))
}

// take makes of the decisions what a rule has answered.
func (d *decisions) take(m *move) {
	if g := m.grant; g != nil {
		if g.to == nil {
			d.withdraw(m.job.ID)
		} else {
			d.grant(m.job.ID, *g.to)
		}
		if g.void {
			d.known, d.void = false, true
		}
	}
	if m.askAnew {
		d.askAnew()
	}
}

// pause forgets what was granted while the cluster is paused, so that nothing
// starts, and what was asked, so that the question comes anew afterwards.
func (d *decisions) pause() {
	d.withdrawOthers(nil)
	d.askAnew()
	d.known = false
}

// reviewed is when the plan was last found to be as good as it can be.
type reviewed struct {
	version uint64
	mod     int64
	slot    int
}
