package serve

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// eventFeed answers requests for events.
type eventFeed struct{ view *view }

// handleEvents writes events as JSON lines, and with follow goes on as they come.
func (f *eventFeed) handleEvents(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	q, err := api.ParseEventQuery(r.URL.Query())
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
	if err == nil || api.CodeOf(err) != api.NotFound {
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
func (f *eventFeed) events(q api.EventQuery) (list []api.Event, changed <-chan struct{}, err error) {
	changed, err = f.view.read(func(m *record.Mirror) {
		told := m.Events(q.After)
		if q.After > 0 && len(told) > 0 && writtenOver(m, q.After) {
			list = append(list, api.Event{Revision: q.After, Notice: fmt.Sprintf(
				"events may be missing here: more than the %d that are kept came at once", record.KeptEvents)})
		}
		for _, e := range told {
			if (q.Job == "" || string(e.Job) == q.Job) && !e.At.Before(q.Since) {
				list = append(list, eventOf(e))
			}
		}
		list = append(list, api.Event{Revision: m.Revision, Mark: true})
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

func eventOf(h record.Happening) api.Event {
	return api.Event{
		Revision: h.Revision, At: h.At, Kind: string(h.Kind), Job: string(h.Job), Generation: uint64(h.Generation),
		Node: string(h.Node), Device: string(h.Device), Rank: h.Rank, From: h.From, To: h.To,
		Seconds: h.Seconds, OwnS: h.OwnS, Predicted: h.Predicted, Measured: h.Measured, By: h.By, Why: h.Why.String(), Because: h.Why,
	}
}

// events writes a list, whose last one is a mark.
func (l lines) events(list []api.Event, end bool) error {
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
