package api

import (
	"net/url"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/record/reason"
)

// Event is one thing that happened in the cluster, and why. Everybody may read
// all of them: they tell what the lists of jobs and nodes tell, and nothing that
// workers wrote.
type Event struct {
	// Revision is where the event stands among all: later ones have a higher one.
	Revision   int64     `json:"revision"`
	At         time.Time `json:"at,omitzero"`
	Kind       string    `json:"kind,omitempty"`
	Job        string    `json:"job,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Node       string    `json:"node,omitempty"`
	Device     string    `json:"device,omitempty"`
	Rank       *int      `json:"rank,omitempty"` // that failed
	From       int       `json:"from,omitempty"` // world sizes, of a start or rescale
	To         int       `json:"to,omitempty"`
	// Seconds is how long that took, from the decision to the first worker; OwnS is Bellows's own share.
	Seconds float64 `json:"seconds,omitempty"`
	OwnS    float64 `json:"own_s,omitempty"`
	// Predicted is by which factor a rescale was predicted to change the job's speed, and
	// Measured, of kind gained, by which it did.
	Predicted float64 `json:"predicted,omitempty"`
	Measured  float64 `json:"measured,omitempty"`
	By        string  `json:"by,omitempty"` // who asked for it
	Why       string  `json:"why,omitempty"`
	// Because is the same as codes and arguments.
	Because reason.Reason `json:"because,omitempty"`
	// Notice replaces all else where events are missing, and says why.
	Notice string `json:"notice,omitempty"`
	// Mark is true in a line that tells nothing but how far the answer has come.
	// Client keeps those to itself, but for their revision.
	Mark bool `json:"mark,omitempty"`
	// End is true in the last mark: an answer without it was cut off.
	End bool `json:"end,omitempty"`
}

// EventQuery says which events are wanted.
type EventQuery struct {
	Job    string    // by identifier or name; empty = all, of nodes too
	Since  time.Time // not older than this; zero = as far back as they are kept
	After  int64     // only those after this revision: where an answer was cut off
	Follow bool      // also those to come
}

func (q EventQuery) values() url.Values {
	v := url.Values{}
	if q.Job != "" {
		v.Set("job", q.Job)
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.After > 0 {
		v.Set("after", strconv.FormatInt(q.After, 10))
	}
	if q.Follow {
		v.Set("follow", "true")
	}
	return v
}

// ParseEventQuery reads what a client asks for.
func ParseEventQuery(v url.Values) (EventQuery, error) {
	q := EventQuery{Job: v.Get("job"), Follow: v.Has("follow") && v.Get("follow") != "false"}
	var err error
	if s := v.Get("since"); s != "" {
		if q.Since, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return q, Fault(Invalid, "since %.40q: use a time such as 2026-01-31T18:00:00Z", s)
		}
	}
	if s := v.Get("after"); s != "" {
		if q.After, err = strconv.ParseInt(s, 10, 64); err != nil || q.After < 0 {
			return q, Fault(Invalid, "after %.20q: use the revision of an event", s)
		}
	}
	return q, nil
}
