package run

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// dawn is when the ranks of these tests begin to speak.
var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// speaker is a run whose ranks say how far they are.
type speaker struct {
	*State
	now time.Time
}

func newSpeaker(order Order) *speaker { return &speaker{New(order, Process{}, ""), dawn} }

func (s *speaker) says(f Finished) { s.Progressed(f, s.now) }

func TestTheNewestStepsAreKept(t *testing.T) {
	s := newSpeaker(Order{})
	for step := range int64(10) {
		for rank := range 3 {
			s.Saved(Save{Step: 9 - step, Rank: 2 - rank})
			s.Saved(Save{Step: 9 - step, Rank: 2 - rank, Samples: 1}) // again: it replaces
		}
	}
	if len(s.Report.Saves) != 3*keptSteps {
		t.Fatalf("%d saves", len(s.Report.Saves))
	}
	for i, save := range s.Report.Saves {
		if want := (Save{Step: int64(10 - keptSteps + i/3), Rank: i % 3, Samples: 1}); save != want {
			t.Errorf("save %d is %+v, want %+v", i, save, want)
		}
	}
}

func TestProgressIsMeasured(t *testing.T) {
	s := newSpeaker(Order{})
	loss := 0.5
	s.says(Finished{Step: 10, Samples: 640})
	s.now = s.now.Add(time.Second)
	s.says(Finished{Step: 10, Samples: 640, Loss: &loss}) // the second rank of the same step adds its loss
	s.says(Finished{Step: 9, Samples: 576})               // a late one changes nothing
	if p := s.Report.Progress; p.Step != 10 || p.Loss == nil || *p.Loss != loss || !p.At.Equal(dawn) {
		t.Errorf("progress %+v, want that of %v", p, dawn)
	}
	s.says(Finished{Step: 10, Samples: 640, Noise: 96, Base: 15}) // as may another what a batch is worth
	if p := s.Report.Progress; p.Loss == nil || *p.Loss != loss || p.NoiseScale != 96 || p.BaseSteps != 15 {
		t.Errorf("%+v", p)
	}
	s.now = dawn.Add(10 * time.Second)
	s.says(Finished{Step: 110, Samples: 7040})
	if p := s.Report.Progress; p.StepsPerSecond != 10 || p.SamplesPerSecond != 640 || p.FirstStep != 10 || !p.FirstAt.Equal(dawn) {
		t.Errorf("%+v, want 10 steps and 640 samples a second since step 10", p)
	}
}

// A speed is measured from the first step that a generation has finished, not from its start.
func TestTheFirstFinishedStepIsKept(t *testing.T) {
	s := newSpeaker(Order{Resume: &record.Checkpoint{Step: 500}})
	s.says(Finished{Step: 500, Samples: -1}) // as a loop reports that begins by it
	if p := s.Report.Progress; p.Step != 500 || p.FirstStep != 0 || !p.FirstAt.IsZero() {
		t.Fatalf("nothing is finished: %+v", p)
	}
	s.now = s.now.Add(time.Second)
	s.says(Finished{Step: 501, Samples: -1})
	first := s.Report.Progress.FirstAt
	s.now = s.now.Add(time.Second)
	s.says(Finished{Step: 520, Samples: 99})
	if p := s.Report.Progress; p.FirstStep != 501 || first.IsZero() || !p.FirstAt.Equal(first) || p.SamplesPerSecond != 0 {
		t.Errorf("%+v, want the first step 501 at %v, and no samples a second of samples that were unknown", p, first)
	}
	// The node's clock is set by an hour between two reports.
	s.said.firstAt = s.said.firstAt.Add(time.Hour)
	s.says(Finished{Step: 530})
	if p := s.Report.Progress; p.FirstAt.After(p.At) || p.At.Sub(p.FirstAt) > time.Minute {
		t.Errorf("after the clock was set: first at %v, now %v", p.FirstAt, p.At)
	}
}

// The SDK passes on one report a second, and the last one when the script ends, which is
// after its last save: the step was finished before that, but not before the last report.
func TestAWordThatWasKeptBackIsAsOldAsItIs(t *testing.T) {
	for _, c := range []struct {
		age  float64
		want time.Duration
	}{{30, 30 * time.Second}, {1e18, time.Minute}, {-1e18, 0}} {
		s := newSpeaker(Order{})
		s.says(Finished{Step: 1})
		s.now = s.now.Add(time.Minute)
		s.says(Finished{Step: 2, Age: c.age})
		if ago := s.now.Sub(s.Report.Progress.At); ago != c.want {
			t.Errorf("finished %v s ago, as it says: %v, want %v", c.age, ago, c.want)
		}
	}
}

func TestImpossibleProgressIsNoProgress(t *testing.T) {
	s := newSpeaker(Order{})
	s.says(Finished{Step: 7})
	for _, f := range []Finished{{Step: -1}, {Step: record.MaxCount + 1}, {Step: 8, Samples: record.MaxCount + 1}} {
		if s.says(f); s.Report.Progress.Step != 7 {
			t.Errorf("%+v makes it %+v", f, s.Report.Progress)
		}
	}
}

// Progress alone goes out once a second, and to no disk.
func TestProgressAloneIsReportedOnceASecond(t *testing.T) {
	s := newSpeaker(Order{Prepare: &Prepare{}, Strict: true})
	now := int64(1e12)
	step := func(after time.Duration) Due { return s.Step(&Facts{Now: now + int64(after), Clock: s.now}) }
	step(0) // the first report of all
	s.says(Finished{Step: 1, Samples: 1})
	if due := step(0); !due.Tell || due.Keep {
		t.Errorf("the first one waits, or is written: %+v", due)
	}
	s.says(Finished{Step: 2, Samples: 2})
	if due := step(progressEvery / 2); due.Tell || due.At != now+int64(progressEvery) {
		t.Errorf("half a second later: %+v", due)
	}
	if due := step(progressEvery); !due.Tell || due.Keep {
		t.Errorf("a second later: %+v", due)
	}
}

// All losses of a node's ranks are added up, whichever rank was first at a step; one that is no
// number, or too large to be one, is counted and hides no other.
func TestLossesAreAddedUp(t *testing.T) {
	s := newSpeaker(Order{})
	told := func(step int64, loss float64) { s.says(Finished{Step: step, Samples: -1, Loss: &loss}) }
	told(1, 2)
	told(1, 3) // another rank
	told(2, 1e300)
	s.says(Finished{Step: 3, Samples: -1, BadLoss: true})
	s.says(Finished{Step: 4, Samples: -1}) // none is told
	told(5, -1)
	if p := s.Report.Progress; p.LossSum != 4 || p.Losses != 3 || p.BadLosses != 2 {
		t.Errorf("sum %v of %d losses, %d bad", p.LossSum, p.Losses, p.BadLosses)
	}
}

// What an SDK says counts, and what lines have said before is forgotten.
func TestTheSDKsWordCountsAndLinesDoNot(t *testing.T) {
	s := newSpeaker(Order{Spec: cluster.Spec{Progress: `step (\d+)`}})
	s.ByLine(&Finished{Step: 900}, true, "its losses have no number", s.now)
	if p := s.Report.Progress; p == nil || p.Step != 900 || s.Report.ProgressProblem == "" {
		t.Fatalf("%+v", s.Report)
	}
	s.BySDK()
	s.says(Finished{Step: 3})
	s.ByLine(&Finished{Step: 901}, true, "its losses have no number", s.now)
	if p := s.Report.Progress; p.Step != 3 || s.Report.ProgressProblem != "" {
		t.Errorf("%+v, %q", p, s.Report.ProgressProblem)
	}
}
