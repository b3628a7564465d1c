package goodput

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// An interval becomes as wide as predictions of about the same time were off, no wider
// because of others, and never narrower.
func TestWidenByHistory(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var ended []Ended
	for i := range 50 {
		short, long := 5*time.Minute, 5*time.Hour
		ended = append(ended, Ended{short, short}, Ended{long, long * time.Duration(50+i) / 100}) // half as long to as long
	}
	ended = append(ended, Ended{0, time.Hour}, Ended{-time.Hour, time.Hour}, Ended{time.Hour, -1})
	h := NewHistory(ended)
	if len(h) != 100 {
		t.Fatalf("%d are kept", len(h))
	}
	end := func(left time.Duration) End {
		return End{At: now.Add(left), Low: now.Add(left * 98 / 100), High: now.Add(left * 102 / 100)}
	}
	if e := end(6 * time.Minute); h.Widen(now, e) != e {
		t.Errorf("short predictions were right: %+v", h.Widen(now, e))
	}
	e := h.Widen(now, end(5*time.Hour))
	if low := e.Low.Sub(now); low < 150*time.Minute || low > 180*time.Minute || !e.At.Equal(now.Add(5*time.Hour)) || !e.High.Equal(end(5*time.Hour).High) {
		t.Errorf("long ones ended sooner: %v to %v", e.Low.Sub(now), e.High.Sub(now))
	}
	if e := end(5 * time.Hour); NewHistory(ended[:enough-1]).Widen(now, e) != e {
		t.Error("a few predictions widened an interval")
	}
	var late []Ended
	for range 60 {
		late = append(late, Ended{time.Minute, 20 * time.Minute})
	}
	if e := NewHistory(late).Widen(now, end(time.Minute)); e.High.Before(now.Add(20*time.Minute)) || !e.Low.Equal(end(time.Minute).Low) {
		t.Errorf("%v to %v", e.Low.Sub(now), e.High.Sub(now))
	}
	if e := h.Widen(now, End{At: now, Low: now, High: now}); !e.Low.Equal(now) || !e.High.Equal(now) {
		t.Errorf("nothing is left: %+v", e)
	}
}

// What a generation reports first may be no further than eight times the speed of the others.
func TestFirstReportIsHeldAgainstOtherGenerations(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		usual float64
		step  int64
		void  bool
	}{{20, 1200, false}, {20, 1000 + 8*20*40, false}, {20, 1000 + 8*20*40 + 1, true}, {0, 1e6, false}} {
		m := After(Before{Step: 1000, At: begin, Usual: c.usual})
		seen := begin.Add(20 * time.Second)
		m.Fold(Sample{Node: "n1", At: seen, Seen: seen, Step: c.step})
		if m.Fault().Void != c.void {
			t.Errorf("%+v: %+v", c, m.Fault())
		}
	}
}

// What a meter keeps is bounded, however many nodes report, and for however long.
func TestAMeterIsBounded(t *testing.T) {
	const meters, nodes, reports = 200, 64, 200
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools have kept goes with the second
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	all := make([]Meter, meters)
	for i := range all {
		for r := range reports {
			at := begin.Add(time.Duration(r) * 10 * time.Second)
			for n := range nodes {
				all[i].Fold(Sample{Node: fmt.Sprintf("n%d", n), At: at, Seen: at, Step: int64(r), Samples: int64(64 * r)})
			}
		}
	}
	each := (heap() - before) / meters
	if each > 16<<10 {
		t.Errorf("%.0f bytes a meter", each)
	}
	t.Logf("%.1f KiB a meter of %d nodes or more", each/1024, reporters)
	runtime.KeepAlive(all)
}
