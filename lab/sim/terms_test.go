package sim

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// What comes and goes between two rounds is seen at the next, and has come and gone when it did.
func TestRounds(t *testing.T) {
	r, log := run(t, Config{
		Jobs:  []Job{elastic("a", 5*s, 100*s, 1), elastic("b", 61*s, 30*s, 1)},
		Nodes: 1, DevicesPerNode: 1, Policy: byName(t, "fifo"), Interval: 60 * s, RescaleCost: 10 * s,
		Terms: Terms{Round: 60 * s},
	})
	// a: from 60 s on, its start, 100 s of work: 170 s, seen at 180 s; then b, from 190 s to 220 s.
	a, b := r.Jobs[0], r.Jobs[1]
	if a.End != 170*s || a.Queueing != 55*s || a.Held != 120*s || b.End != 220*s || b.Queueing != 119*s {
		t.Errorf("a %+v\nb %+v\n%s", a, b, strings.Join(log, "\n"))
	}
}

// Of what comes and goes at once the first is seen, and the next not before the time apart has passed.
func TestApart(t *testing.T) {
	r, log := run(t, Config{
		Jobs:  []Job{elastic("a", 5*s, 25*s, 1), elastic("b", 30*s, 30*s, 1), elastic("c", 200*s, 10*s, 1)},
		Nodes: 1, DevicesPerNode: 1, Policy: byName(t, "fifo"), Interval: 60 * s, RescaleCost: 10 * s,
		Terms: Terms{Apart: 60 * s},
	})
	// a is seen at 5 s, and ends at 40 s, its start paid; that, and b, are seen at 65 s, and b ends at 105 s,
	// seen at 125 s. c comes when nothing was seen for longer.
	a, b, c := r.Jobs[0], r.Jobs[1], r.Jobs[2]
	if a.End != 40*s || a.Queueing != 0 || a.Held != 60*s || b.Queueing != 35*s || b.End != 105*s || b.Held != 60*s || c.Queueing != 0 || c.End != 220*s {
		t.Errorf("a %+v\nb %+v\nc %+v\n%s", a, b, c, strings.Join(log, "\n"))
	}
}

// Each arrival and end costs those that run; those whose end comes before the next do not pay.
func TestTolls(t *testing.T) {
	r, log := run(t, Config{
		Jobs:  []Job{elastic("a", 0, 100*s, 1), elastic("b", 50*s, 20*s, 1), elastic("c", 55*s, 100*s, 1)},
		Nodes: 1, DevicesPerNode: 3, Policy: byName(t, "fifo"), Interval: 60 * s,
		Terms: Terms{
			StartCost: func(Job, int) time.Duration { return 0 },
			Toll:      func(j Job, _ int) time.Duration { return map[string]time.Duration{"a": 10 * s, "b": 4 * s}[j.ID] },
		},
	})
	// b comes at 50 s: a, which has done 50 s, would end at 100 s, and pays 10 s. c comes at 55 s: a pays 10 s
	// anew, having done nothing since, and would end at 105 s; b has done 5 s and would end at 70 s, without
	// its 4 s. It does; a has done 5 s since 65 s, and would end at 115 s but for the 10 s, which nothing makes it pay.
	a, b, c := r.Jobs[0], r.Jobs[1], r.Jobs[2]
	if a.End != 115*s || b.End != 70*s || c.End != 155*s {
		t.Errorf("a %+v\nb %+v\nc %+v\n%s", a, b, c, strings.Join(log, "\n"))
	}
}

// A job is as fast as on its placement, which is what is told of it beforehand, packed.
func TestPaceOfAPlacement(t *testing.T) {
	cfg := Config{
		Jobs: []Job{elastic("a", 0, 300*s, 4)}, Nodes: 2, DevicesPerNode: 2, Policy: byName(t, "greedy"), Interval: 60 * s,
		Terms: Terms{
			StartCost: func(_ Job, workers int) time.Duration { return time.Duration(workers) * s },
			Pace: func(_ Job, at Standing) (float64, error) {
				if len(at.Placement) == 2 {
					return 3, nil
				}
				return float64(at.Placement[0]), nil
			},
		},
	}
	if r, log := run(t, cfg); r.Jobs[0].End != 104*s {
		t.Errorf("%+v\n%s", r.Jobs[0], strings.Join(log, "\n"))
	}
	cfg.Terms.Pace = func(Job, Standing) (float64, error) { return 0, errors.New("not measured") }
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), `job "a": not measured`) {
		t.Errorf("%v", err)
	}
	cfg.Terms.Pace = func(Job, Standing) (float64, error) { return 0, nil }
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), `job "a" has no speed on placement`) {
		t.Errorf("%v", err)
	}
}
