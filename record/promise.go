package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Answer is what the leader has answered to a job's deadline, before anything of the
// job ran. It stays as it is: whether a promise still stands is in Promises.
type Answer struct {
	Deadline time.Time `json:"deadline"`
	// Promised: the job is planned to end by then, or by By.
	Promised bool `json:"promised"`
	// By is what is promised where that is later than Deadline, within the job's grace.
	By time.Time `json:"by,omitzero"`
	// Ends is when it was planned to end at the latest.
	Ends time.Time `json:"ends,omitzero"`
	// Why says what the promise rests on, or why there is none.
	Why string `json:"why"`
	// Offer is what could have been promised instead; nil = nothing that was tried.
	Offer *Offered  `json:"offer,omitempty"`
	At    time.Time `json:"at"`
}

// Late reports whether a moment after the deadline was promised.
func (a *Answer) Late() bool { return a != nil && a.Promised && a.By.After(a.Deadline) }

// Offered is what could be promised to a job whose deadline could not: any one of
// these by itself. Zero = that does not help.
type Offered struct {
	Deadline   time.Time `json:"deadline,omitzero"`     // the earliest that could be kept
	Steps      int64     `json:"steps,omitempty"`       // so many, by the deadline asked for
	MaxWorkers int       `json:"max_workers,omitempty"` // up to so many workers, by the deadline asked for
	MinWorkers int       `json:"min_workers,omitempty"` // from so few workers on, by the deadline asked for
}

// Words says the offer as options of `bellows run`, to follow why a deadline is not promised;
// empty if nothing is offered. With clock the deadline is also told as people read it.
func (o *Offered) Words(clock func(time.Time) string) string {
	if o == nil {
		return ""
	}
	var parts []string
	if !o.Deadline.IsZero() {
		text := "--deadline " + o.Deadline.UTC().Format(time.RFC3339)
		if clock != nil {
			text += " (" + clock(o.Deadline) + ")"
		}
		parts = append(parts, text)
	}
	if o.MaxWorkers > 0 {
		parts = append(parts, fmt.Sprintf("--max %d", o.MaxWorkers))
	}
	if o.MinWorkers > 0 {
		parts = append(parts, fmt.Sprintf("--min %d", o.MinWorkers))
	}
	if o.Steps > 0 {
		parts = append(parts, fmt.Sprintf("--steps %d", o.Steps))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; it could be promised with " + strings.Join(parts, ", or with ")
}

// Promises is the plan by which all promised deadlines are kept: how many devices
// each job has in which slot of time. It is one record, so that a promise is made,
// changed or given up in the same transaction as all that it depends on.
type Promises struct {
	// Origin is when slot 0 of all profiles began, and Slot the length of each.
	Origin time.Time                 `json:"origin"`
	Slot   cluster.Duration          `json:"slot"`
	Jobs   map[cluster.JobID]Promise `json:"jobs,omitempty"`
}

// Promise is what one job was promised.
type Promise struct {
	// Deadline is the job's, or a moment in its grace.
	Deadline time.Time `json:"deadline"`
	// Due is when its end is planned at the latest: before the deadline, for what
	// takes longer than it should.
	Due     time.Time       `json:"due"`
	Profile cluster.Profile `json:"profile,omitempty"`
	// Broken says why the deadline cannot be kept any more, and what would still save
	// it; empty = it can.
	Broken string `json:"broken,omitempty"`
}

// MaxPromisesBytes bounds the record of all promises, well below what etcd takes in a
// transaction: some thousand jobs.
const MaxPromisesBytes = 512 << 10

// At returns the slot that a moment lies in, and what is left of it. At a slot's very
// end, where alarms are a little early, it is the next one.
func (p Promises) At(now time.Time) (slot int, left time.Duration) {
	length := time.Duration(p.Slot)
	if length <= 0 || now.Before(p.Origin) {
		return 0, max(length, 1)
	}
	past := now.Sub(p.Origin) + length/64
	slot = int(past / length)
	return slot, min(length, p.Origin.Add(time.Duration(slot+1)*length).Sub(now))
}

// End is when the last slot of a profile ends.
func (p Promises) End(f cluster.Profile) time.Time {
	if len(f) == 0 {
		return p.Origin
	}
	return p.Origin.Add(time.Duration(f[len(f)-1].From) * time.Duration(p.Slot))
}

// Standing reports whether a job was promised its deadline and it can still be kept.
func (p Promises) Standing(id cluster.JobID) (Promise, bool) {
	q, ok := p.Jobs[id]
	return q, ok && q.Broken == ""
}
