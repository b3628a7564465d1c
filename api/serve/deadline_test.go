package serve

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A job tells what became of its deadline: what could have been promised where it was
// refused, which is an end with a status of its own, and whether a promise still stands.
func TestAnswerIsShown(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 1, 1, 18, 0, 0, 0, time.UTC)
	m, err := record.NewMirror(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	revision := int64(0)
	put := func(op record.Op) {
		revision++
		if _, err := m.Apply(record.Change{KV: record.KV{Key: op.Key, Value: op.Value, CreateRevision: revision, ModRevision: revision}}); err != nil {
			t.Fatal(err)
		}
	}
	admit := func(id cluster.JobID, p cluster.Phase, a *record.Answer) {
		put(record.Put(record.SpecKey(id), record.Submitted{ID: id, Spec: cluster.Spec{Deadline: &due}, Answer: a}))
		put(record.Put(record.StateKey(id), record.State{Phase: p}))
	}
	show := func(id cluster.JobID) api.JobStatus { return jobStatus(m, m.Job(id), self(), nil) }
	admit("a-aaaaaa", cluster.Refused, &record.Answer{Deadline: due, Why: "too late", Offer: &record.Offered{Deadline: due.Add(time.Hour), MaxWorkers: 8}})
	s := show("a-aaaaaa")
	if s.Answer == nil || s.Answer.Promised || s.Answer.Why != "too late" || !s.Answer.Offer.Deadline.Equal(due.Add(time.Hour)) || s.Answer.Offer.MaxWorkers != 8 ||
		!s.Ended || s.ExitCode == nil || *s.ExitCode != api.RefusedStatus {
		t.Errorf("refused: %+v, %+v", s.Answer, s)
	}
	admit("b-aaaaaa", cluster.Running, &record.Answer{Deadline: due, Promised: true, Ends: due.Add(-time.Minute)})
	if s = show("b-aaaaaa"); !s.Answer.Promised || s.Answer.Lost != "" || s.Answer.Ends == nil || s.ExitCode != nil {
		t.Errorf("promised: %+v", s.Answer)
	}
	put(record.Put(record.PromisedKey, record.Promises{Jobs: map[cluster.JobID]record.Promise{"b-aaaaaa": {Deadline: due, Broken: "a node is gone"}}}))
	if s = show("b-aaaaaa"); !s.Answer.Promised || s.Answer.Lost != "a node is gone" {
		t.Errorf("lost: %+v", s.Answer)
	}
	admit("c-aaaaaa", cluster.Queued, nil)
	if s = show("c-aaaaaa"); s.Answer != nil || s.Unadmitted {
		t.Errorf("of an older leader: %+v", s)
	}
}

// A deadline that has passed is refused while the caller still listens.
func TestPassedDeadlineIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	a := serve(t, newFakeStore(), "n1", nil)
	at := time.Now().Add(-time.Second)
	spec := cluster.Spec{Name: "train", Command: []string{"true"}, Workdir: "/", CheckpointDir: "/c", Deadline: &at}
	if _, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec}); api.CodeOf(err) != api.Invalid {
		t.Errorf("%v", err)
	}
}
