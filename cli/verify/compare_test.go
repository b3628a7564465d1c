package verify

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sizes of the worlds of the rescaled training in these tests, four steps each.
var testSizes = []int{4, 2, 4}

// made is a training that is as it should be: 16 samples a step, a falling loss and rate.
func made(sizes []int) Training {
	var t Training
	for i := range 12 {
		k := sizes[i*len(sizes)/12]
		loss, norm := 2/float64(i+1), 3/float64(i+2)
		sum := loss * float64(k)
		p := Point{
			Step: i, Workers: k, Mean: &loss, Sum: &sum, Norm: &norm, LR: []float64{0.1 - 0.001*float64(i)}, Scheduled: 1,
			Masks: make([]string, k), Backwards: slices.Repeat([]int{1}, k), Place: &i, Normalised: 4, Precision: "float32", PassBatches: 8,
		}
		for s := range 16 {
			p.Samples = append(p.Samples, 16*i+s)
		}
		for r := range k {
			p.Masks[r] = fmt.Sprintf("step %d rank %d", i, r)
		}
		t.Points = append(t.Points, p)
	}
	t.Tensors = []Tensor{{Name: "optimizer 0 group 0 parameter 0", Digest: "d", Values: []float64{1, -2, 0.5}}}
	return t
}

// scaled multiplies a number that was seen.
func scaled(f **float64, by float64) { v := **f * by; *f = &v }

// from applies a change to all points from a step on.
func from(t *Training, step int, change func(p *Point)) {
	for i := step; i < len(t.Points); i++ {
		change(&t.Points[i])
	}
}

func lossTimes(by float64) func(p *Point) {
	return func(p *Point) { scaled(&p.Mean, by); scaled(&p.Sum, by) }
}

// scatter changes losses so little, and so differently, that their mean is the same.
func scatter(p *Point) { lossTimes(1 + 0.0001*math.Pow(-1, float64(p.Step)))(p) }

// undropped is a change of a training without dropout, from a step on.
func undropped(step int, change func(p *Point)) func(r *Training) {
	return func(r *Training) {
		from(r, 0, func(p *Point) { p.Masks = make([]string, p.Workers) })
		from(r, step, change)
	}
}

// compared is a change of a training, and what is to be found of it.
type compared struct {
	name    string
	change  func(r *Training)
	reached Class
	finding string // of the first: its quantity, step and cause; "": none
}

func (tt compared) check(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	tt.change(&rescaled)
	if strings.HasPrefix(tt.name, "batch norm ") {
		tt.change(&never)
	}
	r := Compare(never, rescaled, Bitwise)
	if r.Reached != tt.reached {
		t.Errorf("reached %s, not %s", r.Reached, tt.reached)
	}
	got := ""
	if len(r.Findings) > 0 {
		got = fmt.Sprintf("%s %d: %s", r.Findings[0].Quantity, r.Findings[0].Step, r.Findings[0].Cause)
	}
	if !strings.HasPrefix(got, tt.finding) || tt.finding == "" && got != "" {
		t.Errorf("found %q, not %q", got, tt.finding)
	}
	for _, f := range r.Findings {
		if f.Remedy == "" || f.What == "" {
			t.Errorf("no remedy, or nothing said: %+v", f)
		}
	}
	if r := Compare(never, rescaled, tt.reached); tt.reached != Different && (!r.Good() || len(r.Findings) > 0) {
		t.Errorf("with %s wanted: %v", tt.reached, r.Findings)
	}
}

func TestCompare(t *testing.T) {
	first := made(testSizes[:1])
	for _, tt := range []compared{
		{"nothing", func(*Training) {}, Bitwise, ""},
		{"last bits of the state", func(r *Training) { r.Tensors[0].Values = []float64{1, -2 + 1e-9, 0.5} }, Rounding, "parameters 11: rounding"},
		{"the state of other masks", func(r *Training) { r.Tensors[0].Values = []float64{1, -1.9, 0.5} }, Statistical, "parameters 11: random state: dropout masks"},
		{"a digest alone", func(r *Training) { r.Tensors[0].Digest = "e" }, Rounding, "parameters 11: rounding"},
		{"last bits of losses", func(r *Training) { from(r, 5, lossTimes(1+1e-9)) }, Rounding, "loss 5: random state: dropout masks depend on the rank"},
		{"scatter", func(r *Training) {
			from(r, 4, func(p *Point) { lossTimes(1 + 0.02*math.Pow(-1, float64(p.Step)))(p) })
		}, Statistical, "loss 4: random state"},
		{"a biased loss", func(r *Training) { from(r, 4, lossTimes(1.2)) }, Different, "loss 4: random state"},
		{
			"batch statistics", undropped(4, func(p *Point) { lossTimes(1.2)(p); p.Normalised = 16 / p.Workers }),
			Different, "loss 4: batch statistics: batch norm normalises by what a device takes at once, 8 samples with 2 workers and 4 with 4 workers",
		},
		{"batch statistics and masks", func(r *Training) {
			r.BatchNorm = []string{"BatchNorm2d"}
			from(r, 4, func(p *Point) { lossTimes(1.2)(p); p.Normalised = 16 / p.Workers })
		}, Different, "loss 4: batch statistics: BatchNorm2d normalises by what a device takes at once, 8 samples with 2 workers and 4 with 4 workers; dropout masks"},
		{"layers of batch statistics with the same batches", func(r *Training) {
			undropped(5, lossTimes(1.2))(r)
			r.BatchNorm = []string{"BatchNorm2d"}
		}, Different, "loss 5: the first step after a resume differs"},
		{"no layer of batch statistics", undropped(4, func(p *Point) { lossTimes(1.2)(p); p.Normalised = 0 }), Different, "loss 4: not all of the state"},
		{"other numbers", undropped(4, func(p *Point) { lossTimes(1.001)(p); p.Precision = "bfloat16" }), Different, "loss 4: precision: numbers are bfloat16 with 2 workers, and float32 with 4 workers"},
		{"optimizer state is lost", undropped(5, lossTimes(1.2)), Different, "loss 5: the first step after a resume differs: the optimizer's state"},
		{"other state is lost", undropped(4, lossTimes(1.2)), Different, "loss 4: not all of the state is restored"},
		{"other weights", undropped(0, lossTimes(1.2)), Different, "loss 0: the first step differs"},
		{"a loss goes astray later", undropped(6, lossTimes(1.2)), Different, "loss 6: state that is not in the checkpoint"},
		{"last bits of losses without dropout", undropped(6, lossTimes(1+1e-9)), Rounding, "loss 6: rounding"},
		{"a mean beyond 5 % that scatters more", func(r *Training) {
			for i := range r.Points { // 0.06 of a mean of 0.52, with a standard error of 0.11
				lossTimes(1 + 0.5*math.Pow(-1, float64(i)))(&r.Points[i])
				r.Points[i].Masks[0] += "another"
			}
		}, Different, "loss 0: two equal worlds drop other units"},
		{"a stream begins anew", func(r *Training) {
			from(r, 0, func(p *Point) { p.Samples = nil })
			r.Stream = true
			from(r, 4, lossTimes(1.2))
		}, Different, "loss 4: the data has no indices"},
		{"parameters are lost", func(r *Training) {
			from(r, 4, func(p *Point) { p.Mean, p.Sum = first.Points[0].Mean, first.Points[0].Sum })
		}, Different, "loss 4: the parameters begin anew"},
		{"the sampler begins anew", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples = first.Points[p.Step-4].Samples })
		}, Different, "samples 4: the sampler begins anew"},
		{"a loader is read to its end, and begins anew", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples, p.PassEnded = first.Points[p.Step-4].Samples, p.Step == 4 })
		}, Different, "samples 4: the sampler begins anew"},
		{"batches shifted", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples = first.Points[min(p.Step+1, 11)].Samples })
		}, Different, "samples 4: the sampler is 1 steps off"},
		{"another shuffle", func(r *Training) { from(r, 4, func(p *Point) { p.Samples = slices.Repeat([]int{7}, 16) }) }, Different, "samples 4: the sampler shuffles"},
		{"a batch of each device", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples = p.Samples[:4*p.Workers] })
		}, Different, "samples 4: each device takes as many samples"},
		{"a smaller last batch", func(r *Training) { from(r, 11, func(p *Point) { p.Samples = p.Samples[:3] }) }, Different, "samples 11: the last batch"},
		{"a pass has fewer steps", func(r *Training) {
			from(r, 6, func(p *Point) { p.Samples = first.Points[0].Samples; p.PassEnded = p.Step == 6 })
		}, Different, "samples 6: a pass over the data ends after another number of steps"},
		{"a pass has fewer steps at a resume", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples, p.PassBatches = first.Points[min(p.Step+1, 11)].Samples, 3 })
		}, Different, "samples 4: the sampler is 1 steps off, and a pass over the data has another number of steps"},
		{"what is left of a pass", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples, p.PassBatches = first.Points[min(p.Step+1, 11)].Samples, 8-4 })
		}, Different, "samples 4: the sampler is 1 steps off: what was consumed"},
		{"unlike numbers of batches", func(r *Training) {
			from(r, 4, func(p *Point) { p.Samples[0] = 999; p.Backwards[0] = 2 })
		}, Different, "samples 4: ranks take unlike numbers"},
		{"gradients halved", func(r *Training) {
			from(r, 4, func(p *Point) { scaled(&p.Norm, float64(p.Workers)/4) })
			from(r, 8, func(p *Point) { scaled(&p.Norm, 0.5) })
		}, Different, "gradient norm 4: accumulation: the gradient is scaled"},
		{"gradients clipped", func(r *Training) { from(r, 4, func(p *Point) { scaled(&p.Norm, 0.7) }) }, Different, "gradient norm 4: accumulation or clipping"},
		{"ranks drop alike", func(r *Training) { r.Points[3].Masks[2] = r.Points[3].Masks[1] }, Different, "random state 3: the ranks draw the same random numbers: all ranks are seeded alike"},
		{"masks repeat", func(r *Training) { r.Points[4].Masks[1] = r.Points[0].Masks[1] }, Different, "random state 4: the random state begins anew"},
		{"ranks train apart", func(r *Training) { r.Tensors[0].Unalike = true }, Different, "ranks 11: ranks train apart"},
		{"batch norm of each rank", func(r *Training) {
			r.Tensors = append(r.Tensors, Tensor{Name: "batch norm 0 running_mean", Unalike: true})
		}, Bitwise, ""},
		{"batch norm by the world", func(r *Training) {
			r.Tensors = append(r.Tensors, Tensor{Name: "batch norm 0 running_mean", Values: []float64{float64(r.Points[4].Workers)}})
		}, Statistical, "parameters 11: batch norm's running statistics"},
		{"a value is not a number", func(r *Training) { r.Tensors[0].Values = []float64{1, math.NaN(), 0.5} }, Different, "parameters 11"},
		{"a tensor is missing", func(r *Training) { r.Tensors = nil }, Different, "parameters 11"},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestCompareRates(t *testing.T) {
	first := made(testSizes[:1])
	for _, tt := range []compared{
		{"a scheduler a process", func(r *Training) {
			from(r, 4, func(p *Point) { p.LR = []float64{0.01}; p.Scheduled = p.Workers })
		}, Different, "learning rate 4: the scheduler is stepped once for each process: 2 times"},
		{"a scheduler anew", func(r *Training) {
			from(r, 4, func(p *Point) { p.LR, p.Place = first.Points[p.Step-4].LR, nil })
		}, Different, "learning rate 4: the scheduler begins anew"},
		{"a scheduler anew, seen in its second step", func(r *Training) {
			from(r, 4, func(p *Point) { p.Place = first.Points[p.Step-4].Place })
			from(r, 5, func(p *Point) { p.LR = []float64{0.07} })
		}, Different, "learning rate 5: the scheduler begins anew after a resume: it is at its step 1 instead of 5"},
		{"a scheduler of another step", func(r *Training) {
			from(r, 5, func(p *Point) { p.LR, p.Place = []float64{0.07}, first.Points[p.Step-2].Place })
		}, Different, "learning rate 5: the scheduler's place is not restored"},
		{"an optimizer anew", func(r *Training) { from(r, 4, func(p *Point) { p.LR = first.Points[0].LR }) }, Different, "learning rate 4: the optimizer's own rate is not restored"},
		{"a rate by the workers", func(r *Training) {
			from(r, 4, func(p *Point) { p.LR = []float64{p.LR[0] * float64(p.Workers) / 4} })
		}, Different, "learning rate 4: the learning rate is scaled by the number of workers, 2 instead of 4"},
		{"a rate by their root", func(r *Training) {
			from(r, 4, func(p *Point) { p.LR = []float64{p.LR[0] * math.Sqrt(float64(p.Workers)/4)} })
		}, Different, "learning rate 4: the learning rate is scaled by the number of workers"},
		{"a scheduler that goes on elsewhere", func(r *Training) {
			from(r, 4, func(p *Point) { p.LR, p.Place = []float64{0.04}, nil })
		}, Different, "learning rate 4: the scheduler's place"},
		{"a schedule by the loader", func(r *Training) { from(r, 2, func(p *Point) { p.LR = []float64{0.01} }) }, Different, "learning rate 2: the schedule depends"},
	} {
		t.Run(tt.name, tt.check)
	}
}

// TestFaultsThatAreSeen: what a world was seen to do otherwise is a finding where something came of it, and what follows it is said to.
func TestFaultsThatAreSeen(t *testing.T) {
	const parameter = "optimizer 0 group 0 parameter 0"
	saved := []Tensor{
		{Name: parameter, Values: []float64{1, -2}},
		{Name: parameter + " exp_avg", Values: []float64{3, 4}},
		{Name: parameter + " step", Values: []float64{4}},
		{Name: "batch norm 0 running_mean", Values: []float64{5}, Others: [][]float64{{7}, {8, 9}}},
		{Name: "loss scaler 0", Values: []float64{512, 1}},
		{Name: "average 0 steps", Values: []float64{4}},
		{Name: "average 0 parameter 0", Values: []float64{0.5, -1}},
		{Name: "average 1 steps", Values: []float64{4}},
		{Name: "optimizer 1 group 0 parameter 0", Values: []float64{6}},
	}
	but := func(change func(began []Tensor) []Tensor) func(*Training, *Training) {
		return func(_, r *Training) {
			r.Resumes = []Resume{{Step: 4, Workers: 2, Saved: saved, Began: change(slices.Clone(saved[:7]))}} // the other optimizer and the other average are not seen to begin
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(never, rescaled *Training)
		finding string // "": none
	}{
		{"all is restored", but(func(b []Tensor) []Tensor { return b }), ""},
		{"all but the last bits", but(func(b []Tensor) []Tensor { b[0].Values = []float64{1, -2 + 1e-9}; return b }), ""},
		{"nothing is known", but(func([]Tensor) []Tensor { return nil }), ""},
		{
			"no parameters", but(func(b []Tensor) []Tensor { b[0].Values = []float64{1, -2.1}; return b[:1] }),
			"resumed state 4: 1 of 1 tensor are not as they were saved, " + parameter + " most; the parameters are not what was saved",
		},
		{
			"no moments", but(func(b []Tensor) []Tensor { return append(b[:1:1], b[3]) }),
			"resumed state 4: 2 of 2 tensors are not as they were saved, " + parameter + " exp_avg most; the optimizer's state is not restored",
		},
		{
			"other moments", but(func(b []Tensor) []Tensor { b[1].Values = []float64{3, 5}; return b }),
			"resumed state 4: 1 of 2 tensors are not as they were saved, " + parameter + " exp_avg most; the optimizer's state is not what was saved",
		},
		{
			"no running statistics", but(func(b []Tensor) []Tensor { b[3].Values = []float64{0}; return b }),
			"resumed state 4: 1 of 1 tensor are not as they were saved, batch norm 0 running_mean most; the running statistics of batch norm are not what was saved",
		},
		{
			"another factor", but(func(b []Tensor) []Tensor { b[4].Values = []float64{1024, 0}; return b }),
			"resumed state 4: 1 of 1 tensor are not as they were saved, loss scaler 0 most; the factor of the loss scaler is not what was saved",
		},
		{
			"another average", but(func(b []Tensor) []Tensor { b[5].Values, b[6].Values = []float64{0}, []float64{1, -2}; return b }),
			"resumed state 4: 2 of 2 tensors are not as they were saved, average 0 steps most; the average of weights is not what was saved",
		},
		{"no average is updated", but(func(b []Tensor) []Tensor { return b[:5] }), ""},
		{"running statistics of another rank", but(func(b []Tensor) []Tensor { b[3].Values = []float64{7}; return b }), ""},
		{"clipped part by part", func(never, r *Training) {
			from(never, 0, func(p *Point) { p.Clipped = 1 })
			from(r, 0, func(p *Point) { p.Clipped = 4 / p.Workers; p.Backwards[0] = p.Clipped })
		}, "gradient clipping 4: gradients are clipped 2 times in the step instead of 1 time; gradients are clipped before they are whole"},
		{"clipped once", func(never, r *Training) {
			from(never, 0, func(p *Point) { p.Clipped = 1 })
			from(r, 0, func(p *Point) { p.Clipped = 1; p.Backwards[0] = 4 / p.Workers })
		}, ""},
		{"clipped for two models", func(never, r *Training) {
			from(never, 0, func(p *Point) { p.Clipped = 2 })
			from(r, 0, func(p *Point) { p.Clipped = p.Workers; p.Backwards[0] = 4 })
			from(r, 4, func(p *Point) { p.Clipped = 3 })
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			never, rescaled := made(testSizes[:1]), made(testSizes)
			tt.change(&never, &rescaled)
			// Where nothing came of it, the script may have meant it.
			if r := Compare(never, rescaled, Statistical); r.Reached != Bitwise || len(r.Findings)+len(r.Notes) > 0 {
				t.Errorf("trainings that are the same: %s %+v", r.Reached, r.Findings)
			}
			undropped(4, lossTimes(1+1e-9))(&rescaled)
			if r := Compare(never, rescaled, Bitwise); r.Reached != Rounding || len(r.Findings) != 1 || r.Findings[0].Quantity != ofLoss {
				t.Errorf("trainings that differ by rounding: %s %+v", r.Reached, r.Findings)
			}
			undropped(4, scatter)(&rescaled)
			r := Compare(never, rescaled, Rounding)
			got := ""
			if len(r.Findings) > 0 && r.Findings[0].Quantity != ofLoss {
				got = fmt.Sprintf("%s %d: %s; %s", r.Findings[0].Quantity, r.Findings[0].Step, r.Findings[0].What, r.Findings[0].Cause)
			}
			if !strings.HasPrefix(got, tt.finding) || (got == "") != (tt.finding == "") {
				t.Errorf("%q, not %q", got, tt.finding)
			}
			if got != "" && (r.Reached != Different || len(r.Findings) != 2 || r.Findings[1].Cause != "it follows the "+r.Findings[0].Quantity || r.Findings[0].Remedy == "") {
				t.Errorf("%s %+v", r.Reached, r.Findings)
			}
		})
	}
}

// TestNotes: where means are enough, what keeps the trainings from being closer is named all the same.
func TestNotes(t *testing.T) {
	for _, tt := range []struct {
		change func(r *Training)
		note   string
	}{
		{undropped(4, func(p *Point) { scatter(p); p.Normalised = 16 / p.Workers }), "loss 4: batch statistics"},
		{undropped(4, scatter), "loss 4: rounding in float32"},
		{func(r *Training) { r.Tensors[0].Values[0] = 1.001 }, "parameters 11: rounding"},
	} {
		never, rescaled := made(testSizes[:1]), made(testSizes)
		tt.change(&rescaled)
		r := Compare(never, rescaled, Statistical)
		if r.Reached != Statistical || len(r.Notes) != 1 || len(r.Findings) > 0 {
			t.Fatalf("%s %+v %+v", r.Reached, r.Notes, r.Findings)
		}
		if n := r.Notes[0]; strings.HasPrefix(n.Remedy, acceptIt) || !strings.HasPrefix(fmt.Sprintf("%s %d: %s", n.Quantity, n.Step, n.Cause), tt.note) {
			t.Errorf("%+v, not %s", n, tt.note)
		}
		var b strings.Builder
		if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "\n  this is accepted; likely cause: ") {
			t.Errorf("%v\n%s", err, b.String())
		}
		if r = Compare(never, rescaled, Rounding); len(r.Notes) > 0 || len(r.Findings) != 1 {
			t.Errorf("what is a finding is a note as well: %+v", r.Notes)
		}
	}
}

// TestRoundingByPrecision: what is rounding of bfloat16 is none of single precision, and that is none of double.
func TestRoundingByPrecision(t *testing.T) {
	for _, tt := range []struct {
		precision string
		by        float64
		want      string
	}{
		{"bfloat16", 1.03, "rounding in bfloat16"},
		{"float16", 1.03, "not all of the state"},
		{"float16", 1.005, "rounding in float16"},
		{"float32", 1.005, "not all of the state"},
		{"float32", 1.0005, "rounding in float32"},
		{"float64", 1.0005, "not all of the state"},
		{"", 1.005, "not all of the state"},
		{"", 1.0005, "rounding: sums"},
	} {
		never, rescaled := made(testSizes[:1]), made(testSizes)
		undropped(4, lossTimes(tt.by))(&rescaled)
		for _, each := range []*Training{&never, &rescaled} {
			from(each, 0, func(p *Point) { p.Precision = tt.precision })
		}
		if r := Compare(never, rescaled, Rounding); !strings.HasPrefix(r.Findings[0].Cause, tt.want) {
			t.Errorf("%s, %g: %+v", tt.precision, tt.by, r.Findings[0])
		}
	}
}

// TestANormFollowsTheLoss: where the loss is another one, so is the gradient, and that is no fault of its own.
func TestANormFollowsTheLoss(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	from(&rescaled, 6, lossTimes(1.2))
	from(&rescaled, 6, func(p *Point) { scaled(&p.Norm, 0.7) })
	r := Compare(never, rescaled, Bitwise)
	if len(r.Findings) != 2 || r.Findings[0].Quantity != ofLoss || r.Findings[1].Quantity != ofNorm || r.Findings[1].Cause != "it follows the loss" {
		t.Errorf("%+v", r.Findings)
	}
}

// TestALossFollowsWhatItIsTrainedWith: other samples make another loss in their step, another rate in the steps after it.
func TestALossFollowsWhatItIsTrainedWith(t *testing.T) {
	for quantity, change := range map[string]func(p *Point){
		ofSamples: func(p *Point) { p.Samples = slices.Repeat([]int{7}, 16) },
		ofLR:      func(p *Point) { p.LR = []float64{0.05} },
	} {
		for later, follows := range map[int]bool{0: quantity == ofSamples, 1: true} {
			never, rescaled := made(testSizes[:1]), made(testSizes)
			undropped(6+later, lossTimes(1.2))(&rescaled)
			from(&rescaled, 6, change)
			r := Compare(never, rescaled, Rounding)
			if f := r.Findings[1]; f.Quantity != ofLoss || (f.Cause == "it follows the "+quantity) != follows {
				t.Errorf("%s, %d later: %+v", quantity, later, f)
			}
		}
	}
}

// TestStateIsNoFindingOfItsOwn: where means are enough, a state that differs is what they allow, whatever else is wrong.
func TestStateIsNoFindingOfItsOwn(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	rescaled.Points[3].Masks[2] = rescaled.Points[3].Masks[1]
	rescaled.Tensors[0].Values = []float64{1, -1.9, 0.5}
	if r := Compare(never, rescaled, Statistical); len(r.Findings) != 1 || r.Findings[0].Quantity != "random state" {
		t.Errorf("%+v", r.Findings)
	}
	if r := Compare(never, rescaled, Rounding); len(r.Findings) != 2 {
		t.Errorf("%+v", r.Findings)
	}
	rescaled.Tensors[0].Values[1] = math.NaN()
	if r := Compare(never, rescaled, Statistical); len(r.Findings) != 2 {
		t.Errorf("%+v", r.Findings)
	}
}

// TestSumsAndMeans: scripts that sum over ranks are as good as those that DDP averages.
func TestSumsAndMeans(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	from(&never, 0, func(p *Point) { p.Sum, p.Mean = p.Mean, p.Sum })
	from(&rescaled, 0, func(p *Point) { p.Sum, p.Mean = p.Mean, p.Sum })
	if r := Compare(never, rescaled, Bitwise); r.Reached != Bitwise || r.Losses[5].Rescaled != *rescaled.Points[5].Sum {
		t.Errorf("%+v", r)
	}
}

func TestWithoutTorchTheReportedLossCounts(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	for _, each := range []*Training{&never, &rescaled} {
		from(each, 0, func(p *Point) { p.Reported, p.Mean, p.Sum, p.Norm, p.LR = p.Mean, nil, nil, nil, nil })
		each.Tensors = nil
	}
	if r := Compare(never, rescaled, Bitwise); r.Reached != Bitwise || r.Quantities[2].Seen {
		t.Errorf("%+v", r)
	}
	scaled(&rescaled.Points[6].Reported, 1.5)
	if r := Compare(never, rescaled, Rounding); r.Good() || r.Findings[0].Quantity != ofLoss || r.Findings[0].Step != 6 {
		t.Errorf("%+v", r)
	}
	from(&never, 0, func(p *Point) { p.Reported = nil })
	if r := Compare(never, rescaled, Statistical); r.Good() || r.Findings[0].What != "no loss and no optimizer was seen" {
		t.Errorf("%+v", r)
	}
}

func TestText(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	from(&rescaled, 4, func(p *Point) { p.Samples = never.Points[p.Step-4].Samples })
	r := Compare(never, rescaled, Rounding)
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"samples          other ones from step 4 on: 64 taken too often, 64 too rarely\n",
		"loss             the same in every step\n", "1 tensors of parameters and optimizer state, all the same\n",
		"\nsamples, step 4 with 2 workers: 16 samples that the step should not take, 16 left out\n", "  remedy: take the samples",
		"\nthe training changes (wanted: 1e-6): different\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	name := filepath.Join(t.TempDir(), "losses.svg")
	if err := r.Plot(name); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(name)
	if err != nil || strings.Count(string(svg), "<polyline") != 2 || strings.Count(string(svg), "<line") != 3 {
		t.Errorf("%v\n%s", err, svg)
	}
	if err := (Result{}).Plot(name); err == nil {
		t.Error("a plot of no losses")
	}
}

func TestTextOfAStream(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	for _, each := range []*Training{&never, &rescaled} {
		from(each, 0, func(p *Point) { p.Samples = nil })
		each.Stream = true
	}
	var b strings.Builder
	if err := Compare(never, rescaled, Rounding).Text(&b); err != nil || !strings.Contains(b.String(), "samples          not seen: the data has no indices; only losses can tell") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
