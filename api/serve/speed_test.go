package serve

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

// told is what the API says of the sample's running job, which is generation 2 with 2
// workers and has reported step 90, once more has been recorded.
func told(t *testing.T, who uint32, more ...record.Op) api.JobStatus {
	t.Helper()
	kvs := recordtest.Sample(noon)
	for _, op := range more {
		kvs = append(kvs, record.KV{Key: op.Key, Value: op.Value, CreateRevision: 1, ModRevision: 1 << 20})
	}
	m, err := record.NewMirror(kvs, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	job, ok := findJob(m, runningJob, cluster.Owner{UID: who})
	if !ok {
		t.Fatal("it is not shown")
	}
	if _, err := json.Marshal(job); err != nil {
		t.Fatal(err)
	}
	return job
}

const runningJob = "running-aaaaaa"

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// submitted is the sample's spec with steps and a kind.
func submitted(t *testing.T, steps int64, kind string) (record.Op, cluster.Owner) {
	t.Helper()
	var spec record.Submitted
	for _, kv := range recordtest.Sample(noon) {
		if kv.Key == record.SpecKey(runningJob) {
			if err := json.Unmarshal(kv.Value, &spec); err != nil {
				t.Fatal(err)
			}
		}
	}
	spec.Steps, spec.Kind = steps, kind
	return record.Put(record.SpecKey(runningJob), spec), spec.Owner
}

func curve() record.Speed {
	return record.Speed{
		Generation: 2, At: noon, Step: 90, UsefulS: 80, TrainedS: 100, Problem: "its ranks disagree",
		Points:     []record.SpeedPoint{{Workers: 2, Nodes: 2, Batch: 64, StepsPerSecond: 2, Low: 1.9, High: 2.1, Windows: 7, Generation: 2}},
		Starts:     []record.StartPoint{{Generation: 2, Workers: 2, Seconds: 4.5}},
		Curve:      []record.CurvePoint{{Workers: 1, StepsPerSecond: 1.25}, {Workers: 2, StepsPerSecond: 2, Measured: true}},
		Losses:     []record.LossWindow{{Step: 100, Mean: 2, Told: 9}, {Step: 200, Mean: 1.5, Told: 9}, {Step: 300, Mean: 1, Told: 9}},
		Prediction: &record.Prediction{RemainingS: 100, End: noon.Add(100 * time.Second), Low: noon.Add(90 * time.Second), High: noon.Add(120 * time.Second)},
	}
}

func TestWhatTheLeaderHasLearntIsTold(t *testing.T) {
	spec, owner := submitted(t, 290, "")
	s := told(t, owner.UID, spec, record.Put(record.SpeedKey(runningJob), curve()))
	if p := s.Prediction; p == nil || p.RemainingS != 100 || !p.End.Equal(noon.Add(100*time.Second)) || !p.EndLow.Equal(noon.Add(90*time.Second)) || !p.EndHigh.Equal(noon.Add(120*time.Second)) {
		t.Errorf("prediction %+v", p)
	}
	if len(s.Speeds) < 2 {
		t.Fatalf("speeds %+v", s.Speeds)
	}
	if one, two := s.Speeds[0], s.Speeds[1]; one.Measured || one.Workers != 1 || !(1 < one.StepsPerSecond && one.StepsPerSecond < 2) || one.High/one.Low < two.High/two.Low ||
		!two.Measured || two.Workers != 2 || math.Abs(two.StepsPerSecond-2) > 0.01 || two.Low >= 2 || two.High <= 2 {
		t.Errorf("2 is measured with 2 workers, and less with one predicted, less surely: %+v", s.Speeds)
	}
	if l := s.LossTrend; l == nil || l.Flat != "" || math.Abs(l.Fall-0.5) > 1e-9 {
		t.Errorf("loss %+v, want one that falls by half of its fall", l)
	}
	flat := curve()
	flat.LossFlat = goodput.LossNotNumbers
	s = told(t, owner.UID, spec, record.Put(record.SpeedKey(runningJob), flat))
	if l := s.LossTrend; l == nil || l.Flat != flat.LossFlat || !strings.Contains(l.Remedy, "resume from a checkpoint before that") {
		t.Errorf("of a loss that is no number any more is told: %+v", l)
	}
	if s.Goodput == nil || *s.Goodput != 0.8 || s.SpeedProblem != "its ranks disagree" || len(s.Starts) != 1 || s.Starts[0].Seconds != 4.5 {
		t.Errorf("goodput %v, problem %q, starts %+v", s.Goodput, s.SpeedProblem, s.Starts)
	}
}

// What was measured stays to be seen when its owner has scaled the job since.
func TestSizesThatAJobMayNotHaveAnyMoreAreTold(t *testing.T) {
	spec, owner := submitted(t, 290, "")
	scaled := record.Put(record.WantedKey(runningJob), record.Wanted{Run: true, MinWorkers: 4, MaxWorkers: 4})
	s := told(t, owner.UID, spec, scaled, record.Put(record.SpeedKey(runningJob), curve()))
	if len(s.Speeds) != 2 || s.Speeds[0].Workers != 2 || !s.Speeds[0].Measured || s.Speeds[1].Workers != 4 || s.Speeds[1].Measured {
		t.Errorf("measured with 2, now 4: %+v", s.Speeds)
	}
}

// A generation that has just begun is predicted by what was learnt before.
func TestANewGenerationIsPredictedByWhatWasLearntBefore(t *testing.T) {
	spec, owner := submitted(t, 290, "")
	learnt := curve()
	learnt.Generation, learnt.Points[0].Generation = 1, 1
	s := told(t, owner.UID, spec, record.Put(record.SpeedKey(runningJob), learnt))
	p := s.Prediction
	if p == nil || math.Abs(p.RemainingS-100) > 1 || math.Abs(p.End.Sub(p.At).Seconds()-100) > 1 || !p.EndLow.Before(p.End) || !p.EndHigh.After(p.End) || p.EndHigh.Sub(p.End) > 20*time.Second {
		t.Errorf("200 steps are left at 2 a second: %+v", p)
	}
}

// A job of which nothing is measured begins with what its kind has shown, of its owner's jobs alone.
func TestANewJobIsPredictedByItsKind(t *testing.T) {
	spec, owner := submitted(t, 290, "llm")
	kind := record.JobKind{At: noon, Job: "before-aaaaaa", Jobs: 1, Points: []record.SpeedPoint{{Workers: 2, Nodes: 2, Batch: 64, StepsPerSecond: 4, Windows: 3, Generation: 1}}}
	nothing := record.Put(record.SpeedKey(runningJob), record.Speed{})
	s := told(t, owner.UID, spec, nothing, record.Put(record.JobKindKey(owner.UID, "llm"), kind))
	if s.Prediction == nil || math.Abs(s.Prediction.RemainingS-50) > 1 || s.Prediction.EndLow == nil || len(s.Speeds) < 2 || !s.Speeds[1].Measured || s.Kind != "llm" {
		t.Errorf("200 steps are left at 4 a second: %+v, %+v", s.Prediction, s.Speeds)
	}
	s = told(t, owner.UID, spec, nothing, record.Put(record.JobKindKey(owner.UID+1, "llm"), kind))
	if s.Prediction == nil || s.Prediction.RemainingS != 100 || s.Prediction.EndLow != nil || len(s.Speeds) != 0 {
		t.Errorf("of another's kind: 200 steps are left at the 2 a second that it reports: %+v, %+v", s.Prediction, s.Speeds)
	}
	kind.NoiseScale = 6400
	s = told(t, owner.UID, spec, nothing, record.Put(record.JobKindKey(owner.UID, "llm"), kind))
	if s.NoiseScale != nil || s.KindNoiseScale == nil || *s.KindNoiseScale != 6400 {
		t.Errorf("its kind's noise: %v, its own %v", s.KindNoiseScale, s.NoiseScale)
	}
	s = told(t, owner.UID, spec, record.Put(record.SpeedKey(runningJob), record.Speed{NoiseScale: 500}), record.Put(record.JobKindKey(owner.UID, "llm"), kind))
	if s.KindNoiseScale != nil || s.NoiseScale == nil || *s.NoiseScale != 500 {
		t.Errorf("its own noise: %v, its kind's %v", s.NoiseScale, s.KindNoiseScale)
	}
	spec, _ = submitted(t, 0, "llm")
	if s = told(t, owner.UID, spec, nothing, record.Put(record.JobKindKey(owner.UID, "llm"), kind)); s.Prediction != nil {
		t.Errorf("nothing is known of its work: %+v", s.Prediction)
	}
}

// The name of a kind that tells of the command is for those who may see the command.
func TestOthersDoNotSeeTheDigestOfACommand(t *testing.T) {
	for kind, want := range map[string]string{"": "", "llm": "llm"} {
		spec, owner := submitted(t, 1, kind)
		if got := told(t, owner.UID+1, spec).Kind; got != want {
			t.Errorf("kind %q: another user sees %q", kind, got)
		}
		if told(t, owner.UID, spec).Kind == "" {
			t.Errorf("kind %q: its owner sees none", kind)
		}
	}
}

// What is absurd is left out, and nothing of it keeps a job from being shown.
func TestAbsurdPredictionsAreLeftOut(t *testing.T) {
	spec, owner := submitted(t, math.MaxInt64, "")
	for name, change := range map[string]func(*record.Speed){
		"an end that is none": func(s *record.Speed) { s.Prediction.End = time.Time{} },
	} {
		learnt := curve()
		change(&learnt)
		if told(t, owner.UID, spec, record.Put(record.SpeedKey(runningJob), learnt)).Prediction != nil {
			t.Errorf("%s is told", name)
		}
	}
}
