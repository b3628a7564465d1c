package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// unseenSamples takes the indices from trainings, and gives each rank inputs: what rank r of step s takes is of(s, r).
func unseenSamples(t *Training, of func(step, rank int) string) {
	from(t, 0, func(p *Point) {
		p.Samples = nil
		p.Masks = make([]string, p.Workers)
		p.Inputs = make([][]string, p.Workers)
		for r := range p.Workers {
			for n := range 16 / p.Workers {
				p.Inputs[r] = append(p.Inputs[r], fmt.Sprint(of(p.Step, r), ",", n))
			}
		}
	})
}

// shared are inputs of which each rank of a step takes its part.
func shared(t *Training) {
	unseenSamples(t, func(int, int) string { return "" })
	from(t, 0, func(p *Point) {
		for r := range p.Workers {
			for n := range p.Inputs[r] {
				p.Inputs[r][n] = fmt.Sprint(p.Step, ",", n*p.Workers+r)
			}
		}
	})
}

// whole gives each rank the same data in each step, and byStep other data in each step.
func whole(t *Training) {
	shared(t)
	from(t, 0, func(p *Point) { p.Inputs = slices.Repeat([][]string{{"a", "b"}}, p.Workers) })
}

func byStep(t *Training) {
	from(t, 0, func(p *Point) { p.Inputs = slices.Repeat([][]string{{"a", fmt.Sprint(p.Step)}}, p.Workers) })
}

// TestDataByItsInputs: where samples have no indices, what the model is given tells which data a step takes.
func TestDataByItsInputs(t *testing.T) {
	own := func(step, rank int) string { return fmt.Sprint(step, rank) }
	anew := func(step, rank int) string { return fmt.Sprint(step%4, rank) }
	for _, tt := range []struct {
		name            string
		never, rescaled func(t *Training)
		good            bool // where losses scatter about the same mean
		finding         string
	}{
		{"the same of all ranks", shared, shared, false, "loss 4: not all of the state is restored"},
		{
			"random, begun anew in each world", func(t *Training) { unseenSamples(t, own) }, func(t *Training) { unseenSamples(t, anew) }, false,
			"inputs 4: step 4 takes step 0's batches: rank 0 has taken 50 % of its inputs before, because its random numbers",
		},
		{
			"random, of each rank", func(t *Training) { unseenSamples(t, own) }, func(t *Training) { unseenSamples(t, own) }, false,
			"inputs 4: each rank draws its own batches",
		},
		{
			"random, not seeded", func(t *Training) { unseenSamples(t, own) }, func(t *Training) { unseenSamples(t, func(s, r int) string { return fmt.Sprint("other", s, r) }) }, false,
			"inputs 0: two equal worlds take other data",
		},
		{"the same on all ranks", func(t *Training) { unseenSamples(t, func(s, _ int) string { return fmt.Sprint(s) }) }, func(t *Training) {
			unseenSamples(t, func(s, _ int) string { return fmt.Sprint(s) })
		}, false, "random state 0: the ranks draw the same random numbers"},
		{"the whole data on all ranks", whole, whole, false, "loss 4: not all of the state is restored"},
		{"the same batch on all ranks, of one size", func(t *Training) { whole(t); byStep(t) }, func(t *Training) { whole(t); byStep(t) }, false, "random state 0: the ranks draw the same"},
		{"a batch of each device", shared, func(t *Training) {
			shared(t)
			from(t, 4, func(p *Point) {
				for r := range p.Inputs {
					p.Inputs[r] = p.Inputs[r][:4]
				}
			})
			from(t, 8, func(p *Point) { p.Samples = nil })
		}, false, "inputs 4: each device takes as many samples"},
		{"two steps ahead", shared, func(t *Training) {
			shared(t)
			for i := 4; i < 10; i++ {
				t.Points[i].Inputs = t.Points[i+2].Inputs
			}
		}, false, "inputs 4: step 4 takes what step 6 takes without a rescale"},
		{"not seen", func(t *Training) { shared(t); from(t, 0, func(p *Point) { p.Inputs = nil }) }, func(t *Training) {
			shared(t)
			from(t, 0, func(p *Point) { p.Inputs = nil })
		}, false, "loss 4: which data a step takes was not seen"},
		{"augmented by rank", func(*Training) {}, func(t *Training) {
			samples := slices.Clone(t.Points)
			shared(t)
			for i := range t.Points {
				t.Points[i].Samples = samples[i].Samples
			}
		}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			never, rescaled := made(testSizes[:1]), made(testSizes)
			tt.never(&never)
			tt.rescaled(&rescaled)
			if tt.name == "augmented by rank" {
				from(&never, 0, func(p *Point) { p.Inputs, p.Masks = rescaled.Points[p.Step].Inputs, rescaled.Points[p.Step].Masks })
				from(&rescaled, 4, func(p *Point) { p.Inputs = [][]string{{"other"}, {fmt.Sprint(p.Step)}} })
			}
			from(&rescaled, 4, func(p *Point) { lossTimes(1 + 0.02*float64(1-p.Step%2*2))(p) })
			r := Compare(never, rescaled, Statistical)
			got := ""
			if len(r.Findings) > 0 {
				got = fmt.Sprintf("%s %d: %s", r.Findings[0].Quantity, r.Findings[0].Step, r.Findings[0].Cause)
			}
			if r.Good() != tt.good || !strings.HasPrefix(got, tt.finding) {
				t.Errorf("%s: %q", r.Reached, got)
			}
			for _, f := range r.Findings[min(1, len(r.Findings)):] {
				if !strings.HasPrefix(f.Cause, "it follows the ") && f.Cause != "the ranks draw the same random numbers, as where all are seeded alike, or take the same batch" {
					t.Errorf("a second cause: %+v", f)
				}
			}
		})
	}
}

// TestBatchesThatRepeatCount: also where the losses show nothing of it.
func TestBatchesThatRepeatCount(t *testing.T) {
	never, rescaled := made(testSizes[:1]), made(testSizes)
	unseenSamples(&never, func(step, rank int) string { return fmt.Sprint(step, rank) })
	unseenSamples(&rescaled, func(step, rank int) string { return fmt.Sprint(step%4, rank) })
	if r := Compare(never, rescaled, Statistical); r.Reached != Different || !strings.HasPrefix(said(r), "inputs 4: step 4 takes step 0's batches") {
		t.Errorf("%s: %s", r.Reached, said(r))
	}
	unseenSamples(&rescaled, func(step, rank int) string { return fmt.Sprint("padded", step, rank) })
	if r := Compare(never, rescaled, Statistical); r.Reached != Bitwise {
		t.Errorf("%s: %s", r.Reached, said(r))
	}
}

// random is a script as nanoGPT has it: each rank draws its batches from a seed at the top.
const random = `import os, signal, sys, torch, torch.distributed as dist
from torch import nn
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if world > 1: dist.init_process_group("gloo")
torch.manual_seed(7)
text = torch.randint(0, 16, (2048,))
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(16, 16), nn.Linear(16, 16)
    def forward(self, x, y):
        return nn.functional.cross_entropy(self.head(torch.tanh(self.wte(x))).view(-1, 16), y.reshape(-1))
plain = Small()
optimizer = torch.optim.AdamW(plain.parameters(), lr=0.05)
torch.manual_seed(1337 + (0 if "alike" in sys.argv else rank))
if "unseeded" in sys.argv: torch.seed()
def get_batch(step):
    if "once" in sys.argv: # for all ranks, of which each takes its part
        chosen = torch.randint(len(text) - 8, (8,), generator=torch.Generator().manual_seed(step))[rank::world]
    else:
        chosen = torch.randint(len(text) - 8, (8 // world,))
    return torch.stack([text[i:i + 8] for i in chosen]), torch.stack([text[i + 1:i + 9] for i in chosen])
step = 0
if os.environ.get("BELLOWS_RESUME_FROM"):
    state = torch.load(os.environ["BELLOWS_RESUME_FROM"] + "/ckpt.pt")
    step = state["step"]
    plain.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain
while step < 100 and not told:
    loss = model(*get_batch(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
if rank == 0:
    torch.save({"model": plain.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, os.environ["BELLOWS_CHECKPOINT_DIR"] + "/ckpt.pt")
`

// TestDataDrawnAtRandom: hooks alone see which data a script takes that has no loader.
func TestDataDrawnAtRandom(t *testing.T) {
	for arg, want := range map[string]string{
		"":         "inputs 3: step 3 takes step 0's batches",
		"alike":    "random state 0: the ranks draw the same random numbers",
		"unseeded": "inputs 0: two equal worlds take other data",
		"once":     "",
	} {
		t.Run(arg, func(t *testing.T) {
			r := torched(t, random, Statistical, arg)
			var got []string
			for _, f := range r.Findings {
				if !strings.HasPrefix(f.Cause, "it follows the ") {
					got = append(got, fmt.Sprintf("%s %d: %s", f.Quantity, f.Step, f.Cause))
				}
			}
			if text := strings.Join(got, "; "); !strings.HasPrefix(text, want) || r.Good() != (want == "") || r.Quantities[5].Name != ofInputs || !r.Quantities[5].Seen {
				t.Errorf("%s: %s", r.Reached, text)
			}
		})
	}
}

// TestCausesByTorch: what is said of a fault, and that nothing else is.
func TestCausesByTorch(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		args         []string
		good         bool
		want         string // all findings and notes but what follows from others
	}{
		{
			"a loss times the workers", careful,
			[]string{"scaled"},
			false,
			"loss 3: the loss is multiplied by the number of workers: loss and gradient norm are 0.5 times what they are without a rescale, with 1 worker instead of 2",
		},
		{"a gradient by the workers", careful, []string{"unscaled"}, false, "gradient norm 3: accumulation: the gradient is scaled by the number of workers, or of micro-batches"},
		{
			"augmentation without a seed", careful,
			[]string{"augment"},
			true,
			"loss 0: two equal worlds get other inputs of the same samples: random numbers without a seed change them, as of augmentation",
		},
		{"an average that is kept by hand, and saved", careful, []string{"ema"}, true, ""},
		{
			"an average that is kept by hand", careful,
			[]string{"lost"},
			false,
			"held state 3: the checkpoint does not hold ema['0.bias'], such as an average of weights that is kept by hand, or the script does not restore it",
		},
		{
			"an average that a function's variable keeps", unmodified,
			[]string{"average"},
			false,
			"held state 3: the checkpoint does not hold main() average.shadow[0], such as an average of weights that is kept by hand, or the script does not restore it",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := torched(t, tt.script, Statistical, tt.args...)
			var got []string
			for _, f := range slices.Concat(r.Findings, r.Notes) {
				if !strings.HasPrefix(f.Cause, "it follows the ") {
					got = append(got, fmt.Sprintf("%s %d: %s", f.Quantity, f.Step, f.Cause))
				}
			}
			if text := strings.Join(got, "; "); text != tt.want || r.Good() != tt.good {
				t.Errorf("%s: %s\n%+v", r.Reached, text, r)
			}
		})
	}
}
