package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The loss that is shown is that of the step that is shown.
func TestLossBelongsToItsStep(t *testing.T) {
	const job = "train-aaaaaa"
	store := newFakeStore()
	store.admit(t, job, self(), record.State{})
	store.plan(t, job, 2, "n1", "n2")
	a := serve(t, store, "n1", nil)
	shown := func(what string, step int64, loss float64) {
		t.Helper()
		eventually(t, what, func() bool {
			s, err := a.Job(t.Context(), job)
			p := s.Progress
			return err == nil && p.Step == step && (loss == 0) == (p.Loss == nil) && (p.Loss == nil || *p.Loss == loss)
		})
	}
	report := func(node cluster.NodeID, g cluster.Generation, step int64, loss *float64) {
		t.Helper()
		store.put(t, record.Put(record.ProgressKey(node), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{
			job: {Generation: g, Step: step, Loss: loss},
		}}))
	}
	report("n1", 2, 190, nil)
	report("n2", 2, 190, new(2.25))
	shown("the loss that one of two ranks at the same step tells", 190, 2.25)
	store.put(t, record.Put(record.CommittedKey(job), record.Checkpoint{Generation: 2, Step: 200}))
	shown("no loss of a step that only a checkpoint tells of", 200, 0)
	store.put(t,
		record.Put(record.AckKey("n2", job, 2, record.AckStopped), record.Stopped{Progress: &record.JobProgress{Generation: 2, Step: 207, Loss: new(1.5)}}),
		record.Put(record.StateKey(job), record.State{Phase: cluster.Succeeded, Generation: 2}),
	)
	shown("the last word of the run", 207, 1.5)
}

// Steps that a generation has lost are not shown as progress of the next.
func TestLostStepsAreNoProgress(t *testing.T) {
	const job = "train-aaaaaa"
	store := newFakeStore()
	store.admit(t, job, self(), record.State{})
	store.plan(t, job, 2, "n1")
	store.put(t,
		record.Put(record.CommittedKey(job), record.Checkpoint{Generation: 1, Step: 20}),
		record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{job: {Generation: 1, Step: 57, Loss: new(0.5)}}}),
	)
	s, err := serve(t, store, "n1", nil).Job(t.Context(), job)
	if p := s.Progress; err != nil || p.Step != 20 || p.Loss != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// Where the batch ranges, progress is what the steps are worth in steps at the smallest, as
// the job has told, or before it tells anything as was recorded; of steps that are still done.
func TestProgressOfARangeCountsWhatStepsAreWorth(t *testing.T) {
	const job = "train-aaaaaa"
	store := newFakeStore()
	store.admit(t, job, self(), record.State{})
	spec := goodSpec("train")
	spec.Steps, spec.BatchSize = 1000, cluster.BatchSize{Min: 64, Max: 256}
	store.put(t,
		record.Put(record.SpecKey(job), record.Submitted{Spec: spec, ID: job, Owner: self(), At: time.Unix(1e9, 0)}),
		record.Put(record.CommittedKey(job), record.Checkpoint{Generation: 1, Step: 200}),
		record.Put(record.SpeedKey(job), record.Speed{Generation: 1, Step: 190, BaseSteps: 310}),
		record.Put(record.StateKey(job), record.State{Phase: cluster.Running, Generation: 2}),
	)
	store.plan(t, job, 2, "n1")
	a := serve(t, store, "n1", nil)
	shown := func(what string, step, base int64, fraction float64) {
		t.Helper()
		eventually(t, what, func() bool {
			s, err := a.Job(t.Context(), job)
			p := s.Progress
			return err == nil && p.Step == step && p.BaseSteps == base && p.Fraction != nil && *p.Fraction == fraction
		})
	}
	report := func(p record.JobProgress) {
		t.Helper()
		p.Generation = 2
		store.put(t, record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{job: p}}))
	}
	shown("what was recorded before its generation tells anything", 200, 310, 0.31)
	report(record.JobProgress{Step: 220, BaseSteps: 375.5})
	shown("what it tells", 220, 375, 0.375)
	report(record.JobProgress{Step: 220, BaseSteps: 5000})
	shown("no more than its samples could be", 220, 880, 0.88)
	store.put(t, record.Put(record.SpeedKey(job), record.Speed{Generation: 2, Step: 300, BaseSteps: 600}))
	report(record.JobProgress{Step: 250})
	shown("nothing of steps that it has lost since", 250, 0, 0.25)
}

// A job that was stopped has the status of its workers.
func TestExitCodeOfAStoppedJob(t *testing.T) {
	store := newFakeStore()
	stopped := func(job cluster.JobID, exits ...record.Exit) {
		t.Helper()
		store.plan(t, job, 1, "n1", "n2")
		store.put(t, record.Put(record.StateKey(job), record.State{Phase: cluster.Stopped, Generation: 1}))
		for i, node := range []cluster.NodeID{"n1", "n2"} {
			if 2*i < len(exits) {
				store.put(t, record.Put(record.AckKey(node, job, 1, record.AckStopped), record.Stopped{Exits: exits[2*i : 2*i+2]}))
			}
		}
	}
	zero := []record.Exit{{Rank: 0}, {Rank: 1}, {Rank: 2}, {Rank: 3}}
	for _, id := range []cluster.JobID{"clean-aaaaaa", "killed-aaaaaa", "lost-aaaaaa", "idle-aaaaaa", "shelved-aaaaaa"} {
		store.admit(t, id, self(), record.State{Phase: cluster.Stopped})
	}
	stopped("clean-aaaaaa", zero...)
	stopped("killed-aaaaaa", record.Exit{Rank: 0}, record.Exit{Rank: 1}, record.Exit{Rank: 2, Code: -1, Signal: 15}, record.Exit{Rank: 3, Code: 3})
	stopped("lost-aaaaaa", zero[:2]...)
	store.put(t, record.Put(record.StateKey("shelved-aaaaaa"), record.State{Phase: cluster.Stopped, Generation: 7}))
	a := serve(t, store, "n1", nil)
	for id, want := range map[string]*int{"clean": new(0), "killed": new(143), "lost": new(1), "idle": new(1), "shelved": nil} {
		s, err := a.Job(t.Context(), id)
		if err != nil || (s.ExitCode == nil) != (want == nil) || want != nil && *s.ExitCode != *want {
			t.Errorf("%s: %+v, %v, want %v", id, s.ExitCode, err, want)
		}
	}
}

// A list says of each job what is said of it alone, though no node is asked about all jobs.
func TestListsSayWhatIsSaidOfOne(t *testing.T) {
	store := newFakeStore()
	at := time.Unix(1700000000, 0).UTC()
	nodes := []cluster.NodeID{"n1", "n2", "n3"}
	progress := map[cluster.NodeID]record.Progress{}
	for i, job := range []cluster.JobID{"a-aaaaaa", "b-aaaaaa", "c-aaaaaa", "d-aaaaaa"} {
		failure := &record.Failed{Kind: record.WorkerFailed, Reason: "exit status 7", Rank: 0, At: at}
		waits := record.State{Phase: cluster.Backoff, Generation: 2, Failure: failure}
		store.admit(t, job, self(), waits)
		if i == 3 {
			continue // no node reports on it
		}
		store.plan(t, job, 2, nodes[i])
		store.put(t,
			record.Put(record.StateKey(job), waits),
			record.Put(record.AckKey(nodes[i], job, 1, record.AckFailed), *failure),
			record.Put(record.AckKey(nodes[i], job, 1, record.AckStopped), record.Stopped{Exits: []record.Exit{{Rank: 0, Code: 7}}}))
		other := nodes[(i+1)%len(nodes)]
		progress[other] = record.Progress{
			Jobs:     map[cluster.JobID]record.JobProgress{job: {Generation: 2, Step: int64(10 + i)}},
			Problems: map[cluster.JobID]record.Problem{job: {Generation: 2, Text: "the disk is nearly full"}},
		}
	}
	for node, p := range progress {
		store.put(t, record.Put(record.ProgressKey(node), p))
	}
	a := serve(t, store, "n1", nil)
	list, err := a.Jobs(t.Context(), true)
	if err != nil || len(list) != 4 {
		t.Fatalf("%d jobs, %v", len(list), err)
	}
	for i, listed := range list {
		one, err := a.Job(t.Context(), listed.ID)
		if err != nil || !reflect.DeepEqual(one, listed) {
			t.Errorf("alone, %v:\n%+v\nin the list:\n%+v", err, one, listed)
		}
		if told := i < 3; told != (listed.Progress.Step == int64(10+i)) || told != (len(listed.Problems) == 1) || told != (listed.Failure.Node != "") {
			t.Errorf("listed: %+v, %+v", listed, listed.Failure)
		}
		byName, err := a.Job(t.Context(), listed.Name)
		if err != nil || byName.ID != listed.ID {
			t.Errorf("by its name: %s, %v", byName.ID, err)
		}
	}
}

// Problems are of the generation that runs or the one before; who comes back after the job's end sees those of its last.
func TestProblemsOutliveTheJob(t *testing.T) {
	store := newFakeStore()
	told := record.Progress{Problems: map[cluster.JobID]record.Problem{}}
	want := map[cluster.JobID]int{}
	for i, tt := range []struct {
		phase cluster.Phase
		of    cluster.Generation
		seen  int
	}{{cluster.Running, 2, 0}, {cluster.Running, 3, 1}, {cluster.Running, 4, 1}, {cluster.Succeeded, 3, 0}, {cluster.Succeeded, 4, 1}, {cluster.Failed, 4, 1}, {cluster.Stopped, 4, 1}} {
		job := cluster.JobID(fmt.Sprintf("job%d-aaaaaa", i))
		store.admit(t, job, self(), record.State{Phase: tt.phase, Generation: 4})
		store.plan(t, job, 4, "n2")
		store.put(t, record.Put(record.StateKey(job), record.State{Phase: tt.phase, Generation: 4}))
		told.Problems[job], want[job] = record.Problem{Generation: tt.of, Text: "the step went back"}, tt.seen
	}
	store.put(t, record.Put(record.ProgressKey("n2"), told))
	a := serve(t, store, "n1", nil)
	list, err := a.Jobs(t.Context(), true)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d jobs, %v", len(list), err)
	}
	for _, listed := range list {
		one, err := a.Job(t.Context(), listed.ID)
		if n := want[cluster.JobID(listed.ID)]; err != nil || len(one.Problems) != n || len(listed.Problems) != n {
			t.Errorf("%s, %s: %+v, in the list %+v, %v", listed.ID, listed.Phase, one.Problems, listed.Problems, err)
		}
	}
}

// The arguments and the environment file are shown to the owner and root only, and the environment to no one.
func TestSecretsOfASpecAreNotShown(t *testing.T) {
	t.Parallel()
	spec := goodSpec("train")
	spec.Command, spec.Env, spec.EnvFile = []string{"python", "ARGUMENT"}, map[string]string{"NAME": "VARIABLE"}, "/home/FILE"
	for uid, shown := range map[uint32][]string{0: {"ARGUMENT", "FILE"}, 1000: {"ARGUMENT", "FILE"}, 1001: nil} {
		own := uid != 1001
		text, err := json.Marshal(specStatus("train-aaaaaa", spec.Shown(own), cluster.Owner{UID: 1000}, time.Time{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"ARGUMENT", "VARIABLE", "FILE"} {
			if bytes.Contains(text, []byte(word)) != slices.Contains(shown, word) {
				t.Errorf("uid %d: %s in %s", uid, word, text)
			}
		}
	}
}

// Arguments may hold secrets: others than the owner and root see the
// program's name, of jobs that were admitted and of those that wait to be.
func TestArgumentsAreForTheOwner(t *testing.T) {
	t.Parallel()
	m, err := record.NewMirror(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := goodSpec("train")
	spec.Command = []string{"/opt/conda/bin/python", "train.py", "--token", "secret"}
	owner := cluster.Owner{UID: 1000, User: "ada"}
	for i, op := range []record.Op{
		record.Put(record.SpecKey("train-aaaaaa"), record.Submitted{Spec: spec, ID: "train-aaaaaa", Owner: owner}),
		record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Queued}),
		record.Put(record.RequestKey("n1", "r"), record.Request{Kind: record.SubmitRequest, Job: "train-bbbbbb", Spec: &spec, Owner: owner}),
	} {
		rev := int64(i + 1)
		if _, err := m.Apply(record.Change{KV: record.KV{Key: op.Key, Value: op.Value, CreateRevision: rev, ModRevision: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	for uid, want := range map[uint32][]string{0: spec.Command, 1000: spec.Command, 1001: {"python"}} {
		who := cluster.Owner{UID: uid}
		list := jobs(m, who, func(cluster.JobID, string, bool) bool { return true })
		for _, id := range []string{"train-aaaaaa", "train-bbbbbb"} {
			one, _ := findJob(m, id, who)
			list = append(list, one)
		}
		if len(list) != 4 {
			t.Fatalf("%d jobs", len(list))
		}
		for _, s := range list {
			if !reflect.DeepEqual(s.Command, want) {
				t.Errorf("uid %d sees %s of %s", uid, s.Command, s.ID)
			}
		}
	}
}
