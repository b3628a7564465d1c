package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// said are the findings of two trainings, and where there are none the notes.
func said(r Result) string {
	var all []string
	for _, f := range slices.Concat(r.Findings, r.Notes) {
		all = append(all, fmt.Sprintf("%s %d: %s", f.Quantity, f.Step, f.Cause))
	}
	return strings.Join(all, "; ")
}

// TestWhyMeansAreNotEnough: with the same means, a difference passes only by a cause that makes no other training.
func TestWhyMeansAreNotEnough(t *testing.T) {
	plain := func(*Training, *Training) {}
	weights := func(digest string) []Tensor { return []Tensor{{Name: "w", Digest: digest}} }
	alternating := func(by float64) func(p *Point) {
		return func(p *Point) { lossTimes(1 + by*float64(1-p.Step%2*2))(p) }
	}
	for _, tt := range []struct {
		name  string
		first func(never, rescaled *Training)
		step  int
		by    func(p *Point)
		good  bool
		want  string
	}{
		{"rounding", plain, 4, alternating(0.0005), true, "loss 4: rounding in float32"},
		{"more than rounding", plain, 4, alternating(0.02), false, "loss 4: not all of the state is restored, such as the model's buffers"},
		{"rounding that grows", plain, 4, func(p *Point) { alternating(2e-6 * math.Pow(4, float64(p.Step-4)))(p) }, true, "loss 4: rounding in float32"},
		{"rounding, and then a jump", plain, 4, func(p *Point) {
			alternating(2e-6)(p)
			if p.Step >= 8 {
				alternating(0.02)(p)
			}
		}, false, "loss 8: not all of the state is restored, such as the model's buffers"},
		{"a jump in the loss alone is the optimizer's if its state was not seen", plain, 5, alternating(0.02), false, "loss 5: the first step after a resume differs: the optimizer's state is not restored"},
		{"and is not if it was", func(_, r *Training) {
			r.Resumes = []Resume{{Step: 4, Workers: 2, Began: weights("a")}}
		}, 5, alternating(0.02), false, "loss 5: state that is not in the checkpoint"},
		{"other weights", func(n, r *Training) { n.Began, r.Began = weights("a"), weights("b") }, 0, alternating(0.02), false, "loss 0: two equal worlds begin with other weights"},
		{"weights that were not seen", plain, 0, alternating(0.02), false, "loss 0: the first step differs in two equal worlds: other weights, or random"},
		{"what is not deterministic", func(n, r *Training) { n.Began, r.Began = weights("a"), weights("a") }, 0, alternating(0.02), true, "loss 0: two equal worlds differ from the same weights"},
		{"what is not deterministic, of data that was not seen", func(n, r *Training) {
			n.Began, r.Began = weights("a"), weights("a")
			for _, each := range []*Training{n, r} {
				from(each, 0, func(p *Point) { p.Samples = nil })
			}
		}, 0, alternating(0.02), false, "loss 0: two equal worlds differ from the same weights"},
		{"inputs of the same samples without a seed", func(n, r *Training) {
			from(n, 0, func(p *Point) { p.Inputs = [][]string{{fmt.Sprint("n", p.Step)}} })
			from(r, 0, func(p *Point) { p.Inputs = [][]string{{fmt.Sprint("r", p.Step)}} })
		}, 0, alternating(0.02), true, "loss 0: two equal worlds get other inputs of the same samples"},
		{"masks without a seed", func(n, r *Training) {
			from(n, 0, func(p *Point) { p.Masks = []string{fmt.Sprint("n", p.Step)} })
			from(r, 0, func(p *Point) { p.Masks = []string{fmt.Sprint("r", p.Step)} })
		}, 0, alternating(0.02), true, "loss 0: two equal worlds drop other units: the random numbers of dropout have no seed"},
		{"more than equal worlds differ by", func(n, r *Training) {
			n.Began, r.Began = weights("a"), weights("a")
		}, 0, func(p *Point) { alternating(map[bool]float64{false: 0.005, true: 0.2}[p.Step >= 6])(p) }, false, "loss 6: state that is not in the checkpoint"},
		{"more than equal worlds differ by, with masks", func(n, r *Training) {
			n.Began, r.Began = weights("a"), weights("a")
			from(n, 0, func(p *Point) { p.Masks = []string{fmt.Sprint("n", p.Step)} })
			from(r, 0, func(p *Point) { p.Masks = []string{fmt.Sprint("r", p.Step)} })
		}, 0, func(p *Point) { alternating(map[bool]float64{false: 0.005, true: 0.2}[p.Step >= 6])(p) }, false, "loss 6: it differs by more than two equal worlds do, which is 0.5 % at most; beside that, random state: dropout masks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			never, rescaled := made(testSizes[:1]), made(testSizes)
			for _, each := range []*Training{&never, &rescaled} {
				undropped(0, func(*Point) {})(each)
			}
			tt.first(&never, &rescaled)
			from(&rescaled, tt.step, tt.by)
			r := Compare(never, rescaled, Statistical)
			if got := said(r); r.Good() != tt.good || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %s", r.Reached, got)
			}
		})
	}
}

// TestALossTimesTheWorkers: where loss and norm have the ratio of the worlds, that is the cause, and nothing else is.
func TestALossTimesTheWorkers(t *testing.T) {
	for _, tt := range []struct {
		masks      bool
		loss, norm func(p *Point) float64
		want       string
	}{
		{
			false, func(p *Point) float64 { return float64(p.Workers) / 4 }, func(p *Point) float64 { return float64(p.Workers) / 4 },
			"loss 4: the loss is multiplied by the number of workers: loss and gradient norm are 0.5 times what they are without a rescale, with 2 workers instead of 4",
		},
		{
			false, func(p *Point) float64 { return 4 / float64(p.Workers) }, func(p *Point) float64 { return 4 / float64(p.Workers) },
			"gradient norm 4: accumulation: the gradient is scaled by the number of workers",
		},
		{
			true, func(p *Point) float64 { return float64(p.Workers) / 4 * 1.05 }, func(p *Point) float64 { return float64(p.Workers) / 4 * 0.95 },
			"loss 4: the loss is multiplied by the number of workers",
		},
		{
			false, func(p *Point) float64 { return float64(p.Workers) / 4 * 1.05 }, func(p *Point) float64 { return float64(p.Workers) / 4 },
			"loss 4: not all of the state is restored",
		},
		{
			false, func(*Point) float64 { return 1 }, func(p *Point) float64 { return float64(p.Workers) / 4 },
			"gradient norm 4: accumulation: the gradient is scaled by the number of workers",
		},
	} {
		never, rescaled := made(testSizes[:1]), made(testSizes)
		if !tt.masks {
			undropped(0, func(*Point) {})(&never)
			undropped(0, func(*Point) {})(&rescaled)
		}
		for i := 4; i < 8; i++ {
			p := &rescaled.Points[i]
			mean := *p.Mean * tt.loss(p)
			sum := mean * float64(p.Workers)
			p.Mean, p.Sum = &mean, &sum
			scaled(&p.Norm, tt.norm(p))
		}
		if got := said(Compare(never, rescaled, Statistical)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s, not %s", got, tt.want)
		}
	}
}

// TestALossFollowsTheNorm: a gradient that is scaled makes another loss in the steps after it, which has no cause of its own.
func TestALossFollowsTheNorm(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	for _, each := range []*Training{&never, &rescaled} {
		undropped(0, func(*Point) {})(each)
	}
	from(&rescaled, 4, func(p *Point) { scaled(&p.Norm, 0.5) })
	from(&rescaled, 5, lossTimes(1.2))
	for _, wanted := range []Class{Rounding, Statistical} {
		const want = "gradient norm 4: accumulation: the gradient is scaled by the number of workers, or of micro-batches; loss 5: it follows the gradient norm"
		if got := said(Compare(never, rescaled, wanted)); got != want {
			t.Errorf("%s: %s", wanted, got)
		}
	}
	rescaled = made(testSizes)
	undropped(0, func(*Point) {})(&rescaled)
	from(&rescaled, 4, func(p *Point) { scaled(&p.Norm, 0.5); lossTimes(1 + 2e-6)(p) }) // the loss but for rounding
	if got := said(Compare(never, rescaled, Statistical)); !strings.HasPrefix(got, "gradient norm 4: accumulation") {
		t.Error(got)
	}
}

// TestWithoutALossNothingPasses: means of what was not seen are not the same.
func TestWithoutALossNothingPasses(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	for _, each := range []*Training{&never, &rescaled} {
		from(each, 0, func(p *Point) { p.Mean, p.Sum, p.Norm = nil, nil, nil })
	}
	rescaled.Tensors[0].Values = []float64{1, -1.9, 0.5}
	if r := Compare(never, rescaled, Statistical); r.Good() || len(r.Findings) == 0 {
		t.Errorf("%s: %s", r.Reached, said(r))
	}
}

// TestRanksThatTrainOnTheSame: it is said also where nothing came of it.
func TestRanksThatTrainOnTheSame(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	byStep(&never)
	byStep(&rescaled)
	r := Compare(never, rescaled, Statistical)
	if got := said(r); r.Reached != Bitwise || !strings.HasPrefix(got, "random state 0: the ranks draw the same random numbers") || len(r.Notes) != 1 {
		t.Errorf("%s: %s", r.Reached, got)
	}
	whole(&never)
	whole(&rescaled)
	if r = Compare(never, rescaled, Statistical); r.Reached != Bitwise || len(r.Notes) > 0 {
		t.Errorf("%s: %s", r.Reached, said(r))
	}
}

// TestHeldState: what a script holds and a world begins anew is found, and nothing that it should hold anew.
func TestHeldState(t *testing.T) {
	first := map[string]Held{"ema": {"w0", true}}
	old := Holding{first, map[string]Held{"ema": {"e4", false}}}
	for _, tt := range []struct {
		name   string
		worlds []Holding
		want   string
	}{
		{"restored", []Holding{old, {map[string]Held{"ema": {"e4", false}}, nil}}, ""},
		{"a copy of the weights", []Holding{old, {map[string]Held{"ema": {"w4", true}}, nil}}, "1 tensor that the script holds begins anew, as ema is a copy of the weights again"},
		{"as at the first start", []Holding{old, {map[string]Held{"ema": {"w0", false}}, nil}}, "1 tensor that the script holds begins anew, as ema is what it was at the first start again"},
		{"the weights of the end, kept", []Holding{{first, map[string]Held{"ema": {"w4", false}}}, {map[string]Held{"ema": {"w4", true}}, nil}}, ""},
		{"something else", []Holding{old, {map[string]Held{"ema": {"x", false}}, nil}}, ""},
		{"a name that is new", []Holding{old, {map[string]Held{"other": {"w4", true}}, nil}}, ""},
		{"a copy in each step", []Holding{{first, map[string]Held{"ema": {"w3", true}}}, {map[string]Held{"ema": {"w4", true}}, nil}}, ""},
		{"what does not change", []Holding{{first, map[string]Held{"ema": {"w0", false}}}, {map[string]Held{"ema": {"w4", true}}, nil}}, ""},
		{"what does not last", []Holding{{first, nil}, {map[string]Held{"ema": {"w4", true}}, nil}}, ""},
		{"in the third world", []Holding{old, {map[string]Held{"ema": {"e4", false}}, map[string]Held{"ema": {"e8", false}}}, {map[string]Held{"ema": {"w0", false}}, nil}}, "1 tensor that the script holds begins anew"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			never, rescaled := made(testSizes[:1]), made(testSizes)
			rescaled.Held = tt.worlds
			for n := range len(tt.worlds) - 1 {
				rescaled.Resumes = append(rescaled.Resumes, Resume{Step: 4 * (n + 1), Workers: 2})
			}
			r := Compare(never, rescaled, Statistical)
			if tt.want == "" {
				if r.Reached != Bitwise || len(r.Findings) > 0 {
					t.Errorf("%s: %+v", r.Reached, r.Findings)
				}
				return
			}
			if r.Reached != Different || len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].What, tt.want) || r.Findings[0].Step != 4*(len(tt.worlds)-1) {
				t.Errorf("%s: %+v", r.Reached, r.Findings)
			}
			more := maps.Clone(tt.worlds[len(tt.worlds)-1].Began)
			more["zeros"] = more["ema"]
			for n := range len(tt.worlds) - 1 {
				tt.worlds[n].Began, tt.worlds[n].Ended = maps.Clone(tt.worlds[n].Began), maps.Clone(tt.worlds[n].Ended)
				tt.worlds[n].Began["zeros"], tt.worlds[n].Ended["zeros"] = tt.worlds[n].Began["ema"], tt.worlds[n].Ended["ema"]
			}
			tt.worlds[len(tt.worlds)-1].Began = more
			if r = Compare(never, rescaled, Statistical); len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].What, "2 tensors that the script holds begin anew, as ema is ") {
				t.Errorf("%+v", r.Findings)
			}
		})
	}
}
