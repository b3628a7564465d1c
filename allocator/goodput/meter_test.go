package goodput_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
)

var dawn = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// reports is a job that reports every ten seconds: rate says how fast it is then.
func reports(m *goodput.Meter, node string, from, to int, rate func(second int) float64) {
	step := 0.0
	for s := 0; s <= to; s++ {
		if s%10 == 0 && s >= from {
			at := dawn.Add(time.Duration(s) * time.Second)
			m.Fold(goodput.Sample{Node: node, At: at, Seen: at.Add(time.Second), Step: int64(step), Samples: -1})
		}
		step += rate(s)
	}
}

func steady(r float64) func(int) float64 { return func(int) float64 { return r } }

func TestMeterTellsSpeedFromWhatDisturbsIt(t *testing.T) {
	for _, c := range []struct {
		name string
		rate func(s int) float64
		want float64
	}{
		{"steady", steady(20), 20},
		{"slow at first", func(s int) float64 {
			if s < 10 {
				return 1
			}
			return 20
		}, 20},
		{"evaluates 30 s of each 100 s", func(s int) float64 {
			if s%100 >= 70 {
				return 0
			}
			return 20
		}, 20},
		{"a slow window now and then", func(s int) float64 {
			if s%50 < 10 {
				return 7
			}
			return 20
		}, 20},
		{"becomes slower for good", func(s int) float64 {
			if s < 200 {
				return 20
			}
			return 10
		}, 10},
	} {
		var m goodput.Meter
		reports(&m, "n1", 0, 600, c.rate)
		r, ok := m.Rate()
		if !ok || math.Abs(r.PerSecond/c.want-1) > 0.02 || r.Windows < 20 || r.Low > r.PerSecond || r.High < r.PerSecond {
			t.Errorf("%s: %+v, want %v", c.name, r, c.want)
		}
		if f := m.Fault(); f.Text != "" {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	var m goodput.Meter
	reports(&m, "n1", 0, 1000, func(s int) float64 {
		if s%100 >= 70 {
			return 0
		}
		return 20
	})
	if r, _ := m.Rate(); math.Abs(r.Pace-14) > 0.5 {
		t.Errorf("with pauses it does %v steps/s, want 14", r.Pace)
	}
}

// What cannot be is named, changes the speed of none of the windows, and is not believed.
func TestMeterNamesWhatCannotBe(t *testing.T) {
	at := func(s int) time.Time { return dawn.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name  string
		s     goodput.Sample // after 200 s at 20 steps/s
		fault string
		void  bool
		step  int64
	}{
		{"goes on", goodput.Sample{At: at(210), Seen: at(210), Step: 4200}, "", false, 4200},
		{"backwards", goodput.Sample{At: at(210), Seen: at(210), Step: 100}, "n1 reports step 100 after step 4000", true, 4000},
		{"a leap", goodput.Sample{At: at(210), Seen: at(210), Step: 1 << 60}, "steps in 9s", true, 4000},
		{"faster than possible", goodput.Sample{At: at(201), Seen: at(201), Step: math.MaxInt64}, "steps in 0s", true, 4000},
		{"a leap while a clock is set", goodput.Sample{At: at(50), Seen: at(210), Step: 1 << 40}, "steps in ", true, 4000},
		{"an old report", goodput.Sample{At: at(150), Seen: at(210), Step: 3000}, "", false, 4000},
		{"a clock set ahead", goodput.Sample{At: at(100_000), Seen: at(210), Step: 4200}, "", false, 4000},
		{"a clock set back", goodput.Sample{At: at(50), Seen: at(210), Step: 4200}, "", false, 4000},
	} {
		var m goodput.Meter
		reports(&m, "n1", 0, 200, steady(20))
		before, _ := m.Rate()
		c.s.Node = "n1"
		m.Fold(c.s)
		after, ok := m.Rate()
		if !ok || math.Abs(after.PerSecond-before.PerSecond) > 1e-9 {
			t.Errorf("%s: %v becomes %v", c.name, before, after)
		}
		f := m.Fault()
		if !strings.Contains(f.Text, c.fault) || (f.Text == "") != (c.fault == "") || f.Void != c.void {
			t.Errorf("%s: %+v", c.name, f)
		}
		if step, _, _ := m.Step(); step != c.step {
			t.Errorf("%s: it is believed to be at %d, want %d", c.name, step, c.step)
		}
	}
}

func TestMeterTakesTheSlowestNode(t *testing.T) {
	var m goodput.Meter
	reports(&m, "n1", 0, 300, steady(20))
	reports(&m, "n2", 0, 300, steady(19))
	if f := m.Fault(); f.Text != "" {
		t.Errorf("%+v", f)
	}
	reports(&m, "n3", 0, 300, steady(5))
	r, _ := m.Rate()
	if f := m.Fault(); r.PerSecond != 5 || !strings.Contains(f.Text, "ranks disagree: 5 steps/s on n3, 20 on n1") || f.Void {
		t.Errorf("%v, %+v", r, f)
	}
}

// With another batch the steps are others: what was measured before tells nothing of them.
func TestMeterForgetsAnotherBatch(t *testing.T) {
	var m goodput.Meter
	step, samples := int64(0), int64(0)
	for s := 0; s <= 400; s += 10 {
		at := dawn.Add(time.Duration(s) * time.Second)
		m.Fold(goodput.Sample{Node: "n1", At: at, Seen: at, Step: step, Samples: samples})
		if s < 300 {
			step, samples = step+200, samples+200*64
		} else {
			step, samples = step+100, samples+100*128
		}
	}
	if r, _ := m.Rate(); r.PerSecond != 10 || r.Windows != 10 {
		t.Errorf("%+v, want 10 steps/s of 10 windows", r)
	}
}
