package reproduce

import (
	"math"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/sim"
)

// A run stands beside the one without adjustment, and Table 2 beside those of the paper's pair only.
func TestWeiFigures(t *testing.T) {
	run := func(trace, policy string, ends ...float64) *batch.Run {
		r := &batch.Run{Policy: policy, Trace: trace, Nodes: 1}
		for i, s := range ends {
			r.Result.Jobs = append(r.Result.Jobs, sim.Outcome{Submit: time.Duration(i) * 100 * time.Second, End: time.Duration(s * float64(time.Second))})
		}
		return r
	}
	got := map[string]Finding{}
	for _, f := range weiFigures([]*batch.Run{run("pair-512-implied", "share", 400, 600), run("pair-512-implied", "convergence", 300, 540)}) {
		got[f.Policy+" "+f.Quantity] = f
	}
	for what, want := range map[string]struct{ ours, published float64 }{
		"share all end after, s":                {600, 567.5},
		"convergence all end after, s":          {540, 540.81},
		"convergence all, against share, %":     {-10, -4.70},
		"convergence older, against share, %":   {-25, -12.76},
		"convergence younger, against share, %": {-12, -7.26},
	} {
		if f := got[what]; math.Abs(f.Ours-want.ours) > 1e-9 || f.Published == nil || *f.Published != want.published {
			t.Errorf("%s: %+v, want %+v", what, f, want)
		}
	}
	rows := weiFigures([]*batch.Run{run("eight-512-power", "share", 1000, 1100, 1200, 1300), run("eight-512-power", "convergence", 900, 1000, 1200, 1300)})
	if f := rows[4]; f.Quantity != "older, s" || f.Ours != 900 {
		t.Errorf("%+v, want the mean of the older half", f)
	}
	for _, f := range rows {
		if f.Published != nil {
			t.Errorf("%+v: the paper has two tasks", f)
		}
	}
}
