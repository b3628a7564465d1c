package coordinator

import (
	"fmt"
	"maps"
	"slices"

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

// trim deletes a job of each user who has more that have ended than are kept: first
// those that cannot be resumed, and of them the one that ended first.
func (c *Coordinator) trim() {
	l := c.cfg.Limits
	if l == nil {
		return
	}
	c.picture()
	for _, uid := range slices.Sorted(maps.Keys(c.ended)) {
		if has := c.ended[uid]; (has.jobs > l.KeptJobs || int64(has.bytes) > l.Bytes/2) && !l.Exempts(uid) {
			c.trimOne(uid)
		}
	}
}

func (c *Coordinator) trimOne(uid uint32) {
	var first *formed
	before := func(a, b *formed) bool {
		if a.shelved() != b.shelved() {
			return b.shelved()
		}
		return a.state().Since.Before(b.state().Since)
	}
	for _, f := range c.jobs() {
		if f.owner == uid && f.ended != nil && c.flights[f.ID] == nil && (first == nil || before(f, first)) {
			first = f
		}
	}
	if first != nil {
		c.remove(*first, fmt.Sprintf(", and of its owner's that ended later as many as --user-kept-jobs and --user-bytes allow are kept: %d jobs, %d bytes",
			c.cfg.Limits.KeptJobs, c.cfg.Limits.Bytes/2))
	}
}
