package api

import "time"

// PredictedStart is when a job that waits will start: with nine in ten chances between Low and High.
type PredictedStart struct {
	// At is as likely too early as too late; nil = later than Until with more than half of the chances.
	At *time.Time `json:"at,omitempty"`
	// Low is nil where the job hardly starts by Until, High where it may be later than Until.
	Low  *time.Time `json:"low,omitempty"`
	High *time.Time `json:"high,omitempty"`
	// Until is how far was looked; nil where High tells more.
	Until   *time.Time `json:"until,omitempty"`
	Workers int        `json:"workers,omitempty"` // it starts with; 0 = not known
	// Never: it cannot start on the cluster as it is. Why says what it needs.
	Never bool   `json:"never,omitempty"`
	Why   string `json:"why,omitempty"`
}

// DryRunReply says what would become of a job if it were submitted now. Nothing was.
type DryRunReply struct {
	Name   string `json:"name"`
	Leader string `json:"leader"`
	Policy string `json:"policy"` // that decides
	// Refused: it would not be run, for its deadline. What follows is then as if it had none promised.
	Refused bool            `json:"refused,omitempty"`
	Start   *PredictedStart `json:"predicted_start"`
	// Shrinks are the jobs that lose workers when it starts.
	Shrinks []Shrink `json:"shrinks,omitempty"`
	// End is when it would end, with nine in ten chances between EndLow and EndHigh; nil = that is too
	// far away, or not known.
	End     *time.Time `json:"end,omitempty"`
	EndLow  *time.Time `json:"end_low,omitempty"`
	EndHigh *time.Time `json:"end_high,omitempty"`
	// WorkUnknown: how long it takes is not known, so that its end is hardly more than a guess.
	WorkUnknown bool            `json:"work_unknown,omitempty"`
	Deadline    *time.Time      `json:"deadline,omitempty"`
	Answer      *DeadlineAnswer `json:"deadline_answer,omitempty"` // the coordinator's, as it would be now
	// DeadlineHolds says whether the deadline would be kept: one of the values below; empty = it has none.
	DeadlineHolds string   `json:"deadline_holds,omitempty"`
	Warnings      []string `json:"warnings,omitempty"` // as of a submission
}

// The values of DryRunReply.DeadlineHolds.
const (
	HoldsPromised  = "promised"
	HoldsLate      = "late"      // not, but a later moment within its grace would be promised
	HoldsLikely    = "likely"    // in 19 of 20 cases at least
	HoldsUncertain = "uncertain" // that is not known well enough
	HoldsUnlikely  = "unlikely"  // in 1 of 20 cases at most
)

// Shrink is a job that loses workers to another's start.
type Shrink struct {
	Job  string `json:"job"`
	From int    `json:"from"`
	To   int    `json:"to"` // 0 = it waits
}

// NeverStartsStatus is the exit status of a dry run of a job that cannot start on the cluster as it is.
const NeverStartsStatus = 5

// RefusedStatus is the exit status of a job whose deadline was not promised, and which was therefore not begun.
const RefusedStatus = 4
