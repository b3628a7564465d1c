package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// publishLimits records the limits that this leader keeps users to.
func (c *Coordinator) publishLimits() {
	l := c.cfg.Limits
	if l == nil || c.mirror.Limits.Exists() && c.mirror.Limits.Value.Equal(*l) || c.busy(c.mirror.Job("")) {
		return
	}
	c.send(move{verb: "limits", then: []record.Op{record.Put(record.LimitsKey, *l)}})
}

// overLimit says why a user may not have the job that a request asks for; empty if
// he may. Agents have asked the same, but each for itself.
func (c *Coordinator) overLimit(r request, spec cluster.Spec) string {
	uid := r.Value.Owner.UID
	if c.cfg.Limits == nil || c.cfg.Limits.Exempts(uid) {
		return ""
	}
	u := c.used(uid)
	why := c.cfg.Limits.Refuses(record.Submission{UID: uid, Spec: spec, Bytes: r.Size, At: r.Value.At}, u)
	if why == "" {
		u.CountRequest(r.Versioned)
	}
	return why
}

// used returns what a user has, with what is just being admitted.
func (c *Coordinator) used(uid uint32) *record.Usage {
	if c.usage == nil {
		c.usage = map[uint32]*record.Usage{}
		of := func(uid uint32) *record.Usage {
			if c.usage[uid] == nil {
				c.usage[uid] = &record.Usage{}
			}
			return c.usage[uid]
		}
		for _, f := range c.jobs() {
			of(f.owner).CountJob(f.JobView)
		}
		for _, n := range c.mirror.NodeIDs() {
			for _, r := range c.mirror.Node(n).Requests {
				if f := c.flights[r.Value.Job]; r.Value.Kind == record.SubmitRequest && f != nil && f.name != "" {
					of(r.Value.Owner.UID).CountRequest(r)
				}
			}
		}
	}
	if c.usage[uid] == nil {
		c.usage[uid] = &record.Usage{}
	}
	return c.usage[uid]
}

// kept is how much is kept of jobs that have ended.
type kept struct{ jobs, bytes int }

// countEnded counts a job among those of its owner that have ended; nil = no longer.
func (c *Coordinator) countEnded(f *formed, as *kept) {
	sum := c.ended[f.owner]
	if f.ended != nil {
		sum.jobs, sum.bytes = sum.jobs-f.ended.jobs, sum.bytes-f.ended.bytes
	}
	if as != nil {
		sum.jobs, sum.bytes = sum.jobs+as.jobs, sum.bytes+as.bytes
	}
	if c.ended[f.owner] = sum; sum.jobs == 0 {
		delete(c.ended, f.owner)
	}
	f.ended = as
}

// justEnded is for how long a job that has ended is not counted among those that are
// kept, and not deleted for them: `bellows run`, or a script that looks every minute
// or so, is to find how it ended, though its agent restarted just then.
const justEnded = 5 * time.Minute

// surplus counts a user's jobs that have ended, and knows the one to delete first.
type surplus struct {
	kept
	first *formed
}

func (s *surplus) add(f *formed) {
	s.jobs, s.bytes = s.jobs+f.ended.jobs, s.bytes+f.ended.bytes
	if s.first == nil || f.goesBefore(s.first) {
		s.first = f
	}
}

// goesBefore reports whether a job is deleted before another: those that cannot be
// resumed are, and of equals the one that ended first.
func (f *formed) goesBefore(other *formed) bool {
	if f.shelved() != other.shelved() {
		return other.shelved()
	}
	return f.state().Since.Before(other.state().Since)
}

// tooMany reports whether more is kept of a user's jobs than the limits allow.
func tooMany(l record.Limits, has kept) bool {
	return has.jobs > l.KeptJobs || int64(has.bytes) > l.Bytes/2
}

// trim deletes a job of each user who has more that have ended than are kept. Those
// that ended just now are counted for themselves, so that each user has twice the
// limit at most. What is being deleted counts no longer: an answer that takes its
// time must not cost a job at each Step.
func (c *Coordinator) trim() {
	l := c.cfg.Limits
	if l == nil {
		return
	}
	c.picture()
	over := map[uint32]*[2]surplus{} // of each user: what is kept, and what ended just now
	for uid, has := range c.ended {
		if tooMany(*l, has) && !l.Exempts(uid) {
			over[uid] = &[2]surplus{}
		}
	}
	if len(over) == 0 {
		return // most of the time
	}
	for _, f := range c.jobs() {
		of := over[f.owner]
		if of == nil || f.ended == nil || c.flights[f.ID] != nil {
			continue
		}
		if until := f.state().Since.Add(justEnded); c.now.Before(until) {
			c.wake(until)
			of[1].add(f)
		} else {
			of[0].add(f)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(over)) {
		for _, s := range over[uid] {
			if s.first != nil && tooMany(*l, s.kept) {
				c.remove("trim", *s.first, fmt.Sprintf(", and of its owner's as many as --user-kept-jobs and --user-bytes allow are kept: %d jobs, %d bytes",
					l.KeptJobs, l.Bytes/2))
			}
		}
	}
}
