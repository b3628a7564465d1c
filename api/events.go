package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
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

func parseEventQuery(v url.Values) (EventQuery, error) {
	q := EventQuery{Job: v.Get("job"), Follow: v.Has("follow") && v.Get("follow") != "false"}
	var err error
	if s := v.Get("since"); s != "" {
		if q.Since, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return q, fault(Invalid, "since %.40q: use a time such as 2026-01-31T18:00:00Z", s)
		}
	}
	if s := v.Get("after"); s != "" {
		if q.After, err = strconv.ParseInt(s, 10, 64); err != nil || q.After < 0 {
			return q, fault(Invalid, "after %.20q: use the revision of an event", s)
		}
	}
	return q, nil
}

// eventFeed answers requests for events.
type eventFeed struct{ view *view }

// handleEvents writes events as JSON lines, and with follow goes on as they come.
func (f *eventFeed) handleEvents(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	q, err := parseEventQuery(r.URL.Query())
	if err == nil {
		q.Job, err = f.eventsOf(q.Job, who)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := newLines(w)
	for first := true; ; first = false {
		list, changed, err := f.events(q)
		if err != nil { // there is no snapshot yet; once there is one, there is always one
			writeError(w, err)
			return
		}
		last := list[len(list)-1] // a mark
		q.After = last.Revision
		if len(list) > 1 || first {
			if out.events(list, !q.Follow) != nil {
				return // the caller has gone
			}
		}
		if !q.Follow {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// eventsOf finds the identifier of a job of which there may be nothing left but events.
func (f *eventFeed) eventsOf(ref string, who cluster.Owner) (string, error) {
	if ref == "" {
		return "", nil
	}
	status, _, err := f.view.job(ref, who)
	if err == nil || CodeOf(err) != NotFound {
		return status.ID, err
	}
	known := false
	if _, unread := f.view.read(func(m *record.Mirror) {
		for _, e := range m.Events(0) {
			known = known || string(e.Job) == ref
		}
	}); unread != nil {
		return "", unread
	}
	if known {
		return ref, nil
	}
	return "", err
}

// events lists what there is to tell after the query's revision, and at the end a
// mark of how far that goes.
func (f *eventFeed) events(q EventQuery) (list []Event, changed <-chan struct{}, err error) {
	changed, err = f.view.read(func(m *record.Mirror) {
		told := m.Events(q.After)
		if q.After > 0 && len(told) > 0 && writtenOver(m, q.After) {
			list = append(list, Event{Revision: q.After, Notice: fmt.Sprintf(
				"events may be missing here: more than the %d that are kept came at once", record.KeptEvents)})
		}
		for _, e := range told {
			if (q.Job == "" || string(e.Job) == q.Job) && !e.At.Before(q.Since) {
				list = append(list, eventOf(e))
			}
		}
		list = append(list, Event{Revision: m.Revision, Mark: true})
	})
	return list, changed, err
}

// writtenOver reports whether the whole ring is newer than a revision.
func writtenOver(m *record.Mirror, after int64) bool {
	for _, v := range m.Told {
		if v.Mod <= after {
			return false
		}
	}
	return len(m.Told) >= record.KeptEvents
}

func eventOf(h record.Happening) Event {
	return Event{
		Revision: h.Revision, At: h.At, Kind: string(h.Kind), Job: string(h.Job), Generation: uint64(h.Generation),
		Node: string(h.Node), Device: string(h.Device), Rank: h.Rank, From: h.From, To: h.To,
		Seconds: h.Seconds, OwnS: h.OwnS, Predicted: h.Predicted, Measured: h.Measured, By: h.By, Why: h.Why.String(), Because: h.Why,
	}
}

// events writes a list, whose last one is a mark.
func (l lines) events(list []Event, end bool) error {
	for i, e := range list {
		e.End = end && i == len(list)-1
		line, err := json.Marshal(e)
		if err != nil {
			panic(fmt.Sprintf("marshal %+v: %v", e, err))
		}
		if err := l.write(line); err != nil {
			return err
		}
	}
	return nil
}

// Events calls f with each event in order. It returns nil at their end, which
// those that are followed have not, or what f returned. reached is called with
// each revision up to which all has been handed over, and nothing beyond: from
// there a later call goes on without a gap or a repetition.
func (c *Client) Events(ctx context.Context, q EventQuery, f func(Event) error, reached func(revision int64)) error {
	ended := false
	var batch []Event
	err := stream(ctx, c, "/v1/events?"+q.values().Encode(), func(e Event) error {
		if !e.Mark {
			batch = append(batch, e)
			return nil
		}
		for _, x := range batch {
			if err := f(x); err != nil {
				return err
			}
		}
		batch, ended = nil, e.End
		reached(e.Revision)
		return nil
	})
	if err == nil && !ended {
		err = fmt.Errorf("read events: %w: the agent at %s ended the answer", ErrNoAgent, c.path)
	}
	return err
}
