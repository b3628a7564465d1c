package saxena

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

func on(nodes int) sim.Machines { return sim.Machines{Nodes: nodes, DevicesPerNode: 2} }

// Table II: the throughput scaling factors of category 1 on two devices of one node, by the
// batch of each. Section IV-D: 32 on each of five devices are 1.6 times as fast as 16 on two.
func TestFactorsAreThoseOfThePaper(t *testing.T) {
	c, _ := find("resnet50")
	for each, want := range map[int]float64{8: 0.86, 11: 1.06, 16: 1.3, 22: 1.45, 32: 1.66} {
		if got := c.factor(2*each, 2, 2); math.Abs(got/want-1) > 0.03 {
			t.Errorf("batch of a device %d: factor %.3f, published %.2f", each, got, want)
		}
	}
	if got := c.factor(160, 5, 2) / c.factor(32, 2, 2); math.Abs(got/1.6-1) > 0.03 {
		t.Errorf("five devices are %.3f times as fast as two with the smallest batch, published 1.6", got)
	}
	for k := 3; k <= 5; k++ {
		if c.factor(32, k, 2) >= c.factor(32, 2, 2) {
			t.Errorf("with the smallest batch %d devices are faster than two, which the paper's baseline chose", k)
		}
	}
	if c.factor(66, 2, 2) != 0 || c.factor(65, 2, 2) != 0 {
		t.Error("a share that does not fit a device has a factor")
	}
	if f, b := c.best(1, 2); f != 1 || b != 32 {
		t.Errorf("one device: factor %v with a batch of %d", f, b)
	}
}

// play runs a policy of the rules through the simulator, the coordinator and all.
func play(t *testing.T, policy string, jobs ...trace.Arrival) sim.Result {
	t.Helper()
	rules, known, err := New(policy, trace.File{Name: "t", Arrivals: jobs}, Setup{on(2), 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(sim.Config{Jobs: known, Nodes: 2, DevicesPerNode: 2, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func minute(n int) time.Duration { return time.Duration(n) * time.Minute }

func arrival(id, model string, at, minutes, batch int) trace.Arrival {
	return trace.Arrival{ID: id, Model: model, Submit: minute(at), Duration: minute(minutes), BatchSize: batch, Workers: 1}
}

func ends(r sim.Result) (minutes []float64, dropped int) {
	for _, o := range r.Jobs {
		minutes = append(minutes, o.End.Minutes())
		if o.Phase != "succeeded" {
			dropped++
		}
	}
	return minutes, dropped
}

// A job starts at the next Δ. Elastic runs a large batch's job on the device that is left, with
// a smaller batch; the baseline cannot, and queues or drops it.
func TestElasticTakesInWhatTheBaselineCannot(t *testing.T) {
	jobs := []trace.Arrival{arrival("a", "resnet50", 1, 30, 96), arrival("b", "alexnet", 2, 30, 64), arrival("c", "alexnet-food101", 11, 9, 128), arrival("d", "resnet50", 12, 8, 128)}
	for policy, want := range map[string]struct {
		dropped int
		last    float64 // minutes at which the last job has ended, at most
	}{
		"elastic-queue": {0, 70}, "elastic-drop": {0, 70}, "baseline-drop": {2, 70},
	} {
		minutes, dropped := ends(play(t, policy, jobs...))
		if dropped != want.dropped {
			t.Errorf("%s: %d jobs dropped, want %d; ends %v", policy, dropped, want.dropped, minutes)
		}
		for i, m := range minutes {
			if m > want.last {
				t.Errorf("%s: job %d ends after %v min", policy, i, m)
			}
		}
	}
}

// Work is counted at the factor: a job alone has the number of devices and the batch that do most.
func TestAJobAlone(t *testing.T) {
	c, _ := find("vgg11_bn")
	best := 0.0
	for k := 1; k <= 4; k++ {
		f, _ := c.best(k, 2)
		best = max(best, f)
	}
	minutes, _ := ends(play(t, "elastic-queue", arrival("a", "vgg11_bn", 0, 30, 200)))
	if want := 30 / best; math.Abs(minutes[0]-want) > 0.01 {
		t.Errorf("it ends after %v min, want %v", minutes[0], want)
	}
}

func TestDraw(t *testing.T) {
	l, drawn, err := ReadLoad("bursts-8h-0.9")
	if err != nil || !drawn || l != (Load{8 * time.Hour, 0.9}) {
		t.Fatalf("%+v, %t, %v", l, drawn, err)
	}
	f := l.Draw(1, on(200))
	early, late, kinds := 0, 0, map[string]int{}
	for i, a := range f.Arrivals {
		if _, err := categoryOf(f, a); err != nil || a.Submit >= l.Over || i > 0 && a.Submit < f.Arrivals[i-1].Submit {
			t.Fatalf("%+v: %v", a, err)
		}
		kinds[a.Model]++
		if a.Submit%(2*burst) < burst {
			early++
		} else {
			late++
		}
	}
	if ratio := float64(early) / float64(late); ratio < 3.5 || ratio > 4.5 {
		t.Errorf("%v times as many come in bursts as between them, want 4", ratio)
	}
	// 0.9·(1 + ¼)/2 of what 400 devices do with one each, in 8 h.
	if want := 0.5625 * 400 * 480 / meanMinutes(); math.Abs(float64(len(f.Arrivals))/want-1) > 0.05 || len(kinds) != 4 {
		t.Errorf("%d jobs of %v, want %.0f", len(f.Arrivals), kinds, want)
	}
	for _, name := range []string{"bursts-", "bursts-8h", "bursts-8h-x", "bursts-1s-1", "bursts-8h--1", "bursts-8h-nan", "bursts-9999h-1"} {
		if _, drawn, err := ReadLoad(name); !drawn || err == nil || !strings.Contains(err.Error(), "bursts-8h-0.9") {
			t.Errorf("%s: %t, %v", name, drawn, err)
		}
	}
	if _, drawn, err := ReadLoad("trace.csv"); drawn || err != nil {
		t.Errorf("a file: %t, %v", drawn, err)
	}
}

func TestWhatTheRulesDoNotKnow(t *testing.T) {
	for _, a := range []trace.Arrival{arrival("a", "bert", 0, 1, 64), arrival("a", "resnet50", 0, 1, 512), arrival("a", "resnet50", 0, 0, 64)} {
		f := trace.File{Name: "t", Arrivals: []trace.Arrival{a}}
		if _, _, err := New("elastic-drop", f, Setup{on(2), time.Minute}); err == nil {
			t.Errorf("%+v is taken in", a)
		}
		if _, _, err := Terms(f, Setup{on(2), time.Minute}); err == nil {
			t.Errorf("%+v is taken in for production", a)
		}
	}
	if _, _, err := New("elastic", trace.File{}, Setup{on(2), time.Minute}); err == nil {
		t.Error("a policy without a mode is taken")
	}
	small := trace.File{Name: "t", Arrivals: []trace.Arrival{arrival("a", "resnet50", 0, 1, 256)}}
	if _, _, err := New("baseline-drop", small, Setup{on(2), time.Minute}); err == nil {
		t.Error("a batch that fits on no number of devices is taken in")
	}
}
