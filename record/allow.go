package record

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Allowed returns the limits that the leader keeps to, or the defaults where none has said.
func (m *Mirror) Allowed() Limits {
	if m.Limits.Exists() {
		return m.Limits.Value
	}
	return DefaultLimits()
}

// Usage is what one user has of the cluster.
type Usage struct {
	Live  int   // jobs that have not ended
	Bytes int64 // of them

	submitted []submitted
}

// submitted is one submission, and for how many it counts.
type submitted struct {
	at     time.Time
	weight int
}

const (
	// submitWindow is the time in which submissions are counted.
	submitWindow = time.Minute
	// submitBytes is for how much of a spec a submission counts once more: etcd keeps
	// what was written over for minutes.
	submitBytes = 8 << 10
)

func (u *Usage) count(live bool, bytes int, at time.Time) {
	if live {
		u.Live++
		u.Bytes += int64(bytes)
	}
	u.submitted = append(u.submitted, submitted{at, 1 + bytes/submitBytes})
}

// recent counts what was submitted in the window before a time, and says when the first of that was.
func (u *Usage) recent(at time.Time) (n int, first time.Time) {
	for _, s := range u.submitted {
		if s.at.After(at.Add(-submitWindow)) && !s.at.After(at) {
			if n += s.weight; first.IsZero() || s.at.Before(first) {
				first = s.at
			}
		}
	}
	return n, first
}

// CountJob adds a job that was admitted, unless as one that was refused.
func (u *Usage) CountJob(v *JobView) {
	if s := v.State.Value; s.Phase == cluster.Refused || s.Phase == cluster.Failed && s.Generation == 0 {
		return
	}
	u.count(!v.State.Value.Phase.Terminal(), v.Bytes(), v.Spec.Value.At)
}

// CountRequest adds a submission that no leader has carried out yet.
func (u *Usage) CountRequest(r Versioned[Request]) { u.count(true, r.Size, r.Value.At) }

// Bytes is how much of etcd the job takes that its owner decides about.
func (v *JobView) Bytes() int { return v.Spec.Size + v.State.Size }

// Usage returns what a user has of the cluster, admitted or waiting to be.
func (m *Mirror) Usage(uid uint32) *Usage {
	u := &Usage{}
	for _, id := range m.JobIDs() {
		if v := m.Jobs[id]; v.Spec.Exists() && v.Spec.Value.Owner.UID == uid {
			u.CountJob(v)
		}
	}
	for _, n := range m.NodeIDs() {
		for _, r := range m.Nodes[n].Requests {
			if r.Value.Kind == SubmitRequest && r.Value.Owner.UID == uid && !m.Job(r.Value.Job).Spec.Exists() {
				u.CountRequest(r)
			}
		}
	}
	return u
}

// Submission is a job that a user asks for.
type Submission struct {
	UID   uint32
	Spec  cluster.Spec
	Bytes int // as it is recorded
	At    time.Time
}

// Refuses says why a user who has so much may not have one job more; empty if he may.
func (l Limits) Refuses(s Submission, u *Usage) string {
	if l.Exempts(s.UID) {
		return ""
	}
	recent, first := u.recent(s.At)
	switch {
	case s.Spec.Priority > l.Priority:
		return fmt.Sprintf("priority %d: users may take %d at most here (--user-priority of the coordinator): submit with that or less", s.Spec.Priority, l.Priority)
	case u.Live >= l.LiveJobs:
		return fmt.Sprintf("%d jobs of this user have not ended, and a user may have %d here (--user-live-jobs of the coordinator): "+
			"wait until some have ended, or stop some", u.Live, l.LiveJobs)
	case u.Bytes+int64(s.Bytes) > l.Bytes:
		return fmt.Sprintf("the jobs of this user that have not ended take %d bytes with this one, and a user may have %d here (--user-bytes of the coordinator): "+
			"wait until some have ended, stop some, or put commands and environments into files", u.Bytes+int64(s.Bytes), l.Bytes)
	case recent > 0 && recent+1+s.Bytes/submitBytes > l.Submits:
		return fmt.Sprintf("what this user has submitted within a minute counts %d, where each job counts 1 and each 8 KiB of its spec 1 more, "+
			"and a user may submit %d here (--user-submits-per-minute of the coordinator): try again in %s",
			recent, l.Submits, first.Add(submitWindow).Sub(s.At).Round(time.Second))
	}
	return ""
}

// Space is how full etcd is, without what is free in its file. Quota is 0 where etcd does not say.
type Space struct{ Used, Quota int64 }

// reserve is the part of etcd's quota that no user may fill: what the leader and the
// agents write of the jobs that are there already has to go on.
const reserve = 10

// Reserved reports whether what is left is the reserve.
func (s Space) Reserved() bool { return s.Quota > 0 && s.Used > s.Quota-s.Quota/reserve }
