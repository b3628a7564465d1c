package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// tell writes an event as the leader does.
func (s *fakeStore) tell(t *testing.T, seq uint64, job cluster.JobID, at time.Time) {
	t.Helper()
	s.put(t, record.Put(record.EventKey(seq), record.Event{Seq: seq, Kind: record.JobQueued, Job: job, At: at, Why: reason.Said(fmt.Sprint(seq))}))
}

// eventsOf reads what a query finds.
func eventsOf(t *testing.T, a *agent, q api.EventQuery) []string {
	t.Helper()
	var got []string
	if err := a.Events(t.Context(), q, func(e api.Event) error { got = append(got, e.Why+e.Notice); return nil }, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEventsAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	past := time.Now().Add(-time.Hour)
	s.tell(t, 1, "a-aaaaaa", past)
	s.put(t, record.Put(record.NodeEventKey("n7", 1), record.Event{Seq: 1, Kind: record.NodeJoined, Node: "n7", At: past, Why: reason.Said("n7")}))
	s.tell(t, 2, "b-bbbbbb", time.Now())
	s.tell(t, 3, "a-aaaaaa", time.Now())
	n1 := serve(t, s, "n1", &cluster.Owner{UID: 4711, User: "anybody"})
	for _, c := range []struct {
		query api.EventQuery
		want  string
	}{
		{api.EventQuery{}, "1 n7 2 3"},
		{api.EventQuery{Job: "a-aaaaaa"}, "1 3"}, // of which nothing else is left
		{api.EventQuery{Since: time.Now().Add(-time.Minute)}, "2 3"},
		{api.EventQuery{After: s.mem.Revision() - 1}, "3"},
	} {
		if got := strings.Join(eventsOf(t, n1, c.query), " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.query, got, c.want)
		}
	}
	err := n1.Events(t.Context(), api.EventQuery{Job: "absent"}, func(api.Event) error { return nil }, func(int64) {})
	if api.CodeOf(err) != api.NotFound {
		t.Errorf("events of a job that never was: %v", err)
	}
}

// Each event that is followed comes once, in order, across ends of the agent.
func TestFollowedEventsComeOnce(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	var got []string
	var after int64
	for life := range 5 {
		n1 := serve(t, s, "n1", nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for i := range 3 {
			s.tell(t, uint64(10*life+i+1), "a-aaaaaa", time.Now())
		}
		want := 3 * (life + 1)
		err := n1.Events(ctx, api.EventQuery{After: after, Follow: true}, func(e api.Event) error { got = append(got, e.Why); return nil },
			func(revision int64) {
				if after = revision; len(got) >= want {
					go n1.stop()
				}
			})
		cancel()
		if !errors.Is(err, api.ErrNoAgent) {
			t.Fatalf("life %d: %v", life, err)
		}
	}
	want := strings.Fields("1 2 3 11 12 13 21 22 23 31 32 33 41 42 43")
	if !slices.Equal(got, want) {
		t.Errorf("told: %v, want %v", got, want)
	}
}

// Who comes back after the ring has gone round is told that something is missing.
func TestEventsThatWereWrittenOver(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	s.tell(t, 1, "a-aaaaaa", time.Now())
	after := s.mem.Revision()
	var ops []record.Op
	for seq := range uint64(record.KeptEvents) {
		if ops = append(ops, record.Put(record.EventKey(seq+2), record.Event{Seq: seq + 2, Why: reason.Said("x")})); len(ops) == 100 {
			s.put(t, ops...)
			ops = nil
		}
	}
	s.put(t, ops...)
	n1 := serve(t, s, "n1", nil)
	got := eventsOf(t, n1, api.EventQuery{After: after})
	if len(got) != record.KeptEvents+1 || !strings.HasPrefix(got[0], "events may be missing here") {
		t.Errorf("%d lines, the first: %s", len(got), got[0])
	}
	if got := eventsOf(t, n1, api.EventQuery{}); len(got) != record.KeptEvents {
		t.Errorf("%d events, want %d", len(got), record.KeptEvents)
	}
}
