package speed_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/speed"
	"github.com/bellows-ml/bellows/record"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// A history is the records of one job with two workers on node n1, in its second generation.
type history struct {
	t   *testing.T
	m   *record.Mirror
	rev int64
}

func newHistory(t *testing.T) *history {
	t.Helper()
	m, err := record.NewMirror(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, m: m}
	owner := cluster.Owner{UID: 1000, User: "ann"}
	h.put(record.Put(record.SpecKey("a"), record.Submitted{ID: "a", Owner: owner, At: began, Spec: cluster.Spec{
		Name: "a", Command: []string{"train"}, MinWorkers: 1, MaxWorkers: 4, Steps: 10_000,
	}.WithDefaults()}))
	h.put(record.Put(record.StateKey("a"), record.State{Phase: cluster.Running, Generation: 2, Since: began}))
	h.put(record.Put(record.PlanKey("a", 2), record.Plan{At: began, World: cluster.World{
		Job: "a", Generation: 2, Nonce: "x", Members: []cluster.Member{{Node: "n1", Devices: []cluster.DeviceID{"d0", "d1"}}},
	}}))
	return h
}

// put writes a record, and returns its place.
func (h *history) put(op record.Op) record.Place {
	h.t.Helper()
	h.rev++
	at, err := h.m.Apply(record.Change{KV: record.KV{Key: op.Key, Value: op.Value, CreateRevision: h.rev, ModRevision: h.rev}})
	if err != nil {
		h.t.Fatal(err)
	}
	return at
}

// report has the ranks of generation 2 tell a step, so long after it began.
func (h *history) report(ms *speed.Measures, after time.Duration, step int64) {
	h.t.Helper()
	now := began.Add(after)
	ms.Take(h.m, h.put(record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{
		"a": {Generation: 2, Nonce: "x", Step: step, At: now, FirstStep: 1, FirstAt: began.Add(5 * time.Second)},
	}})), now)
}

// known is what ms knows of the job, so long after its generation began.
func (h *history) known(ms *speed.Measures, after time.Duration) speed.Known {
	v := h.m.Job("a")
	return ms.Of(h.m, began.Add(after), speed.Job{
		JobView: v, Gen: v.Generations[2], Sizes: []int{1, 2, 4}, PerNode: 4, Trained: after, Service: 2 * after,
	})
}

// What a generation reports is its speed; a new leader goes on from what the one before has recorded of it.
func TestALeaderGoesOnFromTheRecord(t *testing.T) {
	h, ms := newHistory(t), speed.New(false)
	if k := h.known(ms, time.Second); !k.Unheard() || k.Reporting() || k.Begun() {
		t.Fatalf("before any report: unheard %v, reporting %v, begun %v", k.Unheard(), k.Reporting(), k.Begun())
	}
	for s := 10; s <= 300; s += 10 { // ten steps a second
		h.report(ms, time.Duration(s)*time.Second, int64(10*s))
	}
	k := h.known(ms, 300*time.Second)
	if step, told := k.StepsDone(); step != 3000 || !told {
		t.Fatalf("step %d, told %v: want 3000", step, told)
	}
	r := k.Record()
	if len(r.Points) != 1 || r.Points[0].Workers != 2 || r.Points[0].StepsPerSecond < 9.5 || r.Points[0].StepsPerSecond > 10.5 {
		t.Fatalf("points %+v: want ten steps a second of two workers", r.Points)
	}
	if p := r.Prediction; p == nil || p.RemainingS < 600 || p.RemainingS > 800 {
		t.Errorf("prediction %+v: want 7,000 steps at ten a second", p)
	}
	f := k.Foresee(false)
	if len(f.Curve) != 3 || !f.Work.Known {
		t.Errorf("%d speeds, work %+v: want one for each size", len(f.Curve), f.Work)
	}
	h.put(record.Put(record.SpeedKey("a"), r))
	successor := speed.New(false)
	successor.TakeAll(h.m, began.Add(301*time.Second))
	next := h.known(successor, 301*time.Second).Foresee(false)
	if len(next.Curve) != 3 || next.Curve[1].PerSecond != f.Curve[1].PerSecond {
		t.Errorf("curve %v of the next leader: want %v", next.Curve, f.Curve)
	}
	// Without the record it knows only how far the job is.
	h.put(record.Put(record.SpeedKey("a"), record.Speed{Generation: 1, Step: -1, Samples: -1}))
	blank := speed.New(false)
	blank.TakeAll(h.m, began.Add(302*time.Second))
	if f := h.known(blank, 302*time.Second).Foresee(false); f.Curve != nil {
		t.Errorf("curve %v without a record", f.Curve)
	}
}

// What earlier generations did counts on, when the next is silent for long and then reports after all.
func TestSilenceKeepsWhatWasDoneBefore(t *testing.T) {
	h, ms := newHistory(t), speed.New(false)
	h.put(record.Put(record.SpeedKey("a"), record.Speed{Generation: 1, Step: 500, Samples: -1, UsefulS: 1000}))
	h.put(record.Put(record.SpeedKey("a"), h.known(ms, 5*time.Minute).Silent()))
	if !h.known(ms, 5*time.Minute).SilenceRecorded() {
		t.Fatal("silence is not recorded")
	}
	for s := 310; s <= 600; s += 10 {
		h.report(ms, time.Duration(s)*time.Second, int64(10*(s-300)))
	}
	if r := h.known(ms, time.Hour).Record(); r.UsefulBeforeS != 1000 || r.UsefulS < 1500 {
		t.Errorf("useful: %v s before, %v s in all: want 1,000 before, and what this generation did besides", r.UsefulBeforeS, r.UsefulS)
	}
}

// A job that tells that all steps are done gets the time to save its last model, and less if it was never seen to do any.
func TestPatienceWithWhatIsFinished(t *testing.T) {
	h, ms := newHistory(t), speed.New(false)
	h.report(ms, 10*time.Second, 10_000)
	patience, finished := h.known(ms, 11*time.Second).Finished()
	if !finished || patience != time.Minute {
		t.Errorf("at once: %v, %v: want a minute", patience, finished)
	}
	h, ms = newHistory(t), speed.New(false)
	for s := 10; s <= 300; s += 10 {
		h.report(ms, time.Duration(s)*time.Second, int64(33*s))
	}
	if _, finished := h.known(ms, 300*time.Second).Finished(); finished {
		t.Error("finished at step 9,900 of 10,000")
	}
	h.report(ms, 310*time.Second, 10_000)
	if patience, finished := h.known(ms, 311*time.Second).Finished(); !finished || patience != 10*time.Minute {
		t.Errorf("after 10,000 steps: %v, %v: want ten minutes", patience, finished)
	}
}

// A kind learns of a job once, when it has ended.
func TestAKindLearnsOnce(t *testing.T) {
	h, ms := newHistory(t), speed.New(false)
	for s := 10; s <= 300; s += 10 {
		h.report(ms, time.Duration(s)*time.Second, int64(10*s))
	}
	h.put(record.Put(record.SpeedKey("a"), h.known(ms, 300*time.Second).Record()))
	h.put(record.Put(record.StateKey("a"), record.State{Phase: cluster.Succeeded, Generation: 2, Since: began.Add(301 * time.Second)}))
	s, kind, ok := h.known(ms, 302*time.Second).RecordKind()
	if !ok || kind.Jobs != 1 || len(kind.Points) != 1 || len(kind.Lengths) != 1 || s.Kind == "" {
		t.Fatalf("%v, kind %+v, named %q: want one job with its speed and its length", ok, kind, s.Kind)
	}
	h.put(record.Put(record.SpeedKey("a"), s))
	if _, _, again := h.known(ms, 303*time.Second).RecordKind(); again {
		t.Error("a kind learns of a job twice")
	}
	if _, _, ok := h.known(speed.New(true), 303*time.Second).RecordKind(); ok {
		t.Error("a kind learns where nothing is measured")
	}
}
