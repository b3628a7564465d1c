package forecast_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

func point(workers int, rate float64) goodput.Point {
	return goodput.Point{Workers: workers, Nodes: 1, PerSecond: rate, Low: rate, High: rate, Windows: 20}
}

var sizes = []int{1, 2, 4, 8}

// measured is a job at 10 steps/s on one device, half done of 36,000 steps.
func measured() forecast.Job {
	return forecast.Job{
		Sizes: sizes, Steps: 36_000, Done: 18_000, Reported: true, Trained: time.Hour, Service: time.Hour,
		Points: []goodput.Point{point(1, 10), point(2, 18)},
	}
}

func TestWork(t *testing.T) {
	change := func(f func(*forecast.Job)) forecast.Job { j := measured(); f(&j); return j }
	near := func(d time.Duration) allocator.Work { return allocator.Left(d) }
	for _, c := range []struct {
		name  string
		job   forecast.Job
		want  allocator.Work
		doubt string
	}{
		{"by steps and speed", measured(), near(30 * time.Minute), ""},
		{"steps without speed", change(func(j *forecast.Job) { j.Points = nil }), allocator.Work{}, ""},
		{"steps and an estimate, no speed yet", change(func(j *forecast.Job) { j.Points, j.ETA = nil, 2*time.Hour }), near(time.Hour), ""},
		{"an estimate that fits", change(func(j *forecast.Job) { j.ETA = time.Hour }), near(30 * time.Minute), ""},
		{"an estimate far off hardly counts", change(func(j *forecast.Job) { j.ETA = time.Second }), near(28*time.Minute + 30*time.Second), "--eta 1s is far off: by its speed it takes 1h0m0s on one device"},
		{"nothing left", change(func(j *forecast.Job) { j.Done = 36_000 }), near(0), ""},
		{"more steps than there are", change(func(j *forecast.Job) { j.Done = math.MaxInt64 }), near(0), ""},
		{"nothing left for too long", change(func(j *forecast.Job) { j.Done, j.Overdue = 36_000, true }), allocator.Work{}, "it goes on after its 36000 steps"},
		{"reports that cannot be believed", change(func(j *forecast.Job) { j.Void, j.Done = true, 36_000 }), allocator.Work{}, ""},
		{"a bare estimate falls", forecast.Job{Sizes: sizes, ETA: 10 * time.Hour, Trained: time.Hour, Service: 4 * time.Hour}, near(10*time.Hour - 2560*3600*time.Millisecond), ""},
		{"a bare estimate that was outlived", forecast.Job{Sizes: sizes, ETA: time.Hour, Trained: 2 * time.Hour, Service: 2 * time.Hour}, allocator.Work{}, "it has outlived the 1h0m0s"},
		{"steps, and the speed of its kind", forecast.Job{Sizes: sizes, Steps: 36_000, Kind: []goodput.Point{point(1, 10)}}, near(time.Hour), ""},
		{"nothing known", forecast.Job{Sizes: sizes}, allocator.Work{}, ""},
		{"nothing known but speed", forecast.Job{Sizes: sizes, Points: []goodput.Point{point(1, 10)}, Reported: true, Done: 5}, allocator.Work{}, ""},
	} {
		f := forecast.Of(c.job)
		if f.Work.Known != c.want.Known || math.Abs((f.Work.Left-c.want.Left).Seconds()) > 0.02*c.want.Left.Seconds() {
			t.Errorf("%s: %+v, want %+v", c.name, f.Work, c.want)
		}
		if !strings.Contains(f.Doubt, c.doubt) || (f.Doubt == "") != (c.doubt == "") {
			t.Errorf("%s: doubt %q, want %q", c.name, f.Doubt, c.doubt)
		}
	}
}

// A job whose reports cannot be believed is decided about as one that reports nothing.
func TestVoidReportsAreNone(t *testing.T) {
	void, silent := measured(), measured()
	void.Void, void.ETA, silent.ETA = true, 5*time.Hour, 5*time.Hour
	silent.Points, silent.Reported, silent.Done = nil, false, 0
	a, b := forecast.Of(void), forecast.Of(silent)
	if a.Work != b.Work || a.Speeds != nil || b.Speeds != nil || !a.Work.Known {
		t.Errorf("%+v and %+v", a, b)
	}
}

func TestSpeedsAreRelativeToOneWorker(t *testing.T) {
	f := forecast.Of(measured())
	if math.Abs(f.Speeds[0]-1) > 0.01 || math.Abs(f.Speeds[1]-1.8) > 0.05 || !f.Curve[1].Measured || f.Curve[3].Measured {
		t.Errorf("%v, %+v", f.Speeds, f.Curve)
	}
	if f := forecast.Of(forecast.Job{Sizes: sizes}); f.Speeds != nil || f.Curve != nil {
		t.Errorf("nothing was measured, but %v", f.Speeds)
	}
}

// A kind fills in what a job has not shown itself; one that its speed contradicts is dropped.
func TestKind(t *testing.T) {
	j := measured()
	j.Points = j.Points[:1]
	j.Kind = []goodput.Point{point(1, 11), point(2, 21), point(4, 40), point(8, 78)} // scales well, 10 % faster
	if f := forecast.Of(j); f.Doubt != "" || math.Abs(f.Speeds[3]-7.1) > 0.5 {
		t.Errorf("%v, %q", f.Speeds, f.Doubt)
	}
	for i := range j.Kind {
		j.Kind[i].PerSecond *= 3
	}
	f := forecast.Of(j)
	j.Kind = nil
	alone := forecast.Of(j)
	if !strings.Contains(f.Doubt, "its kind") || f.Speeds[3] != alone.Speeds[3] || f.Work != alone.Work {
		t.Errorf("%v, %q; without the kind %v", f.Speeds, f.Doubt, alone.Speeds)
	}
}

func TestStartCosts(t *testing.T) {
	start := func(workers, seconds int) forecast.Start {
		return forecast.Start{Workers: workers, Took: time.Duration(seconds) * time.Second}
	}
	s := func(n ...int) (out []time.Duration) {
		for _, x := range n {
			out = append(out, time.Duration(x)*time.Second)
		}
		return out
	}
	for _, c := range []struct {
		name string
		job  forecast.Job
		want []time.Duration
	}{
		{"nothing known", forecast.Job{}, s(30, 30, 30, 30)},
		{"the cluster's", forecast.Job{Fleet: 12 * time.Second}, s(12, 12, 12, 12)},
		{"its kind's", forecast.Job{Fleet: 12 * time.Second, KindStarts: []forecast.Start{start(1, 50), start(1, 60), start(2, 70)}}, s(60, 60, 60, 60)},
		{"one own", forecast.Job{Starts: []forecast.Start{start(2, 20)}}, s(20, 20, 20, 20)},
		{"one outlier", forecast.Job{Starts: []forecast.Start{start(2, 4000)}}, s(90, 90, 90, 90)},
		{"an outlier of three", forecast.Job{Starts: []forecast.Start{start(2, 20), start(2, 4000), start(2, 22)}}, s(22, 22, 22, 22)},
		{"by size", forecast.Job{Starts: []forecast.Start{start(1, 10), start(1, 10), start(1, 10), start(8, 40), start(8, 40), start(8, 40)}}, s(10, 25, 25, 40)},
		{"negative", forecast.Job{Starts: []forecast.Start{start(1, -5)}}, s(30, 30, 30, 30)},
	} {
		c.job.Sizes = sizes
		got := forecast.Of(c.job).StartCosts
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}
