package api

import "time"

// DeadlineAnswer is the coordinator's answer to a job's deadline.
type DeadlineAnswer struct {
	Promised bool `json:"promised"` // it was planned to be kept, or By
	// By is the later moment, within its grace, that is promised instead of the deadline; nil = the deadline is.
	By   *time.Time `json:"by,omitempty"`
	Ends *time.Time `json:"ends,omitempty"` // by when, at the latest, at submission
	// Why says what the promise rests on, or why there is none.
	Why string `json:"why"`
	// Lost says why a promise cannot be kept any more, and what would save it; empty = it can.
	Lost string `json:"lost,omitempty"`
	// Offer is what could have been promised instead; nil = nothing.
	Offer *DeadlineOffer `json:"offer,omitempty"`
}

// DeadlineOffer is what could be promised in place of a deadline, each by itself; zero = that does not help.
type DeadlineOffer struct {
	Deadline   *time.Time `json:"deadline,omitempty"`
	MaxWorkers int        `json:"max_workers,omitempty"`
	MinWorkers int        `json:"min_workers,omitempty"`
	Steps      int64      `json:"steps,omitempty"`
}
