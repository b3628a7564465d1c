package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// reader is what one knows who has read the lab's records, and what the leader is told.
func (l *lab) reader(t *testing.T, name string) (coordinator.Config, *record.Mirror) {
	t.Helper()
	p, err := policy.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	kvs, revision := l.mem.Range(record.Root)
	m, err := record.NewMirror(kvs, revision)
	if err != nil {
		t.Fatal(err)
	}
	return coordinator.Config{Interval: l.interval}.Deciding(p), m
}

// Who has only read the records asks what the leader would ask: which jobs run and wait,
// with how much left, and when a question was asked last. The jobs that came lately are
// there as they came, also those that have ended.
func TestLookAheadKnowsWhatTheLeaderKnows(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, `promises elasticflow interval=1m
		node n1 gpus=2
		submit a workers=1..1 eta=10m
		started a
		submit b workers=1..1 eta=20m
		started b
		advance 5m
		stopped a finished=yes
		submit f workers=1..1
		started f
		advance 3m
		stopped f finished=yes
		advance 1m
		submit c workers=1..1 eta=30m
		started c
		submit d workers=1..1 eta=40m
		submit e workers=4..4 eta=1h
		advance 30s`)
	cfg, m := l.reader(t, "elasticflow")
	q := coordinator.LookAhead(cfg, m, l.now)
	got := map[cluster.JobID]int{}
	for _, j := range q.Input.Jobs {
		got[j.ID] = j.Workers
	}
	if len(got) != 4 || got["b-aaaaaa"] != 1 || got["c-aaaaaa"] != 1 || got["d-aaaaaa"] != 0 || q.Input.Interval != time.Minute || len(q.Input.Nodes) != 1 {
		t.Errorf("jobs %v, interval %v, %d nodes", got, q.Input.Interval, len(q.Input.Nodes))
	}
	if since := l.now.Sub(q.Asked); since < 0 || since >= time.Minute {
		t.Errorf("asked %v ago", since)
	}
	want := map[cluster.JobID]time.Duration{"a-aaaaaa": 10 * time.Minute, "b-aaaaaa": 20 * time.Minute, "c-aaaaaa": 30 * time.Minute, "d-aaaaaa": 40 * time.Minute, "e-aaaaaa": time.Hour, "f-aaaaaa": 3 * time.Minute} // nothing was told of f: its time is its work
	if len(q.Arrivals) != len(want) || l.now.Sub(q.Since) != time.Hour {
		t.Errorf("%d jobs came in %v", len(q.Arrivals), l.now.Sub(q.Since))
	}
	for _, j := range q.Arrivals {
		if j.Work.Left != want[j.ID] || j.Workers != 0 || j.Service != 0 {
			t.Errorf("%s came with %v of work, %d workers", j.ID, j.Work.Left, j.Workers)
		}
	}
}

// A dry run gives the answer that a submission gets, and writes nothing; the promise is in
// the question that the look-ahead goes on with, and so is what it leaves to those promised before.
func TestADryRunAnswersAsASubmissionDoes(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, `promises elasticflow interval=1m
		node n1 gpus=4
		submit j workers=1..4 eta=1h deadline=80m
		started j`)
	for _, c := range []struct {
		name          string
		most          int
		eta, deadline time.Duration
		promised      bool
	}{
		{"k", 4, 150 * time.Minute, 65 * time.Minute, false},
		{"o", 2, time.Hour, 64 * time.Minute, true},
		{"p", 2, time.Hour, 64 * time.Minute, true}, // for which j makes room
	} {
		cfg, m := l.reader(t, "elasticflow")
		before := l.mem.Revision()
		due := l.now.Add(c.deadline)
		spec := recorded[record.Submitted](l.mem, record.SpecKey("j-aaaaaa"))
		spec.ID, spec.Name, spec.Deadline, spec.ETA, spec.Answer = cluster.JobID(c.name+"-aaaaaa"), c.name, &due, cluster.Duration(c.eta), nil
		spec.MaxWorkers = c.most
		q, answer := coordinator.DryRun(cfg, m, l.now, spec)
		if l.mem.Revision() != before {
			t.Errorf("%s: something was written", c.name)
		}
		last := q.Input.Jobs[len(q.Input.Jobs)-1]
		if last.ID != spec.ID || (last.Promise != nil) != c.promised || q.Input.Jobs[0].Promise == nil {
			t.Errorf("%s: %+v", c.name, q.Input.Jobs)
		}
		play(t, l, fmt.Sprintf("submit %s workers=1..%d eta=%s deadline=%s", c.name, c.most, c.eta, c.deadline))
		for _, j := range q.Input.Jobs {
			if p, ok := recorded[record.Promises](l.mem, record.PromisedKey).Jobs[j.ID]; ok && !slices.Equal(j.Promise.Profile, p.Profile) {
				t.Errorf("%s: %s is shown %v, and promised %v", c.name, j.ID, j.Promise.Profile, p.Profile)
			}
		}
		got := recorded[record.Submitted](l.mem, record.SpecKey(spec.ID)).Answer
		if got == nil || answer == nil || got.Promised != c.promised || answer.Promised != got.Promised || answer.Why != got.Why || !answer.Ends.Equal(got.Ends) {
			t.Errorf("%s: dry run %+v, submitted %+v", c.name, answer, got)
		}
	}
}
