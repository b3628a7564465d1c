package shim

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// What ranks print counts as far as the furthest of them is, and is all told when they have ended.
func TestLinesAreReadForProgress(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, `i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo "step $((i+RANK)) loss 0.$i"; done; printf 'step 77'; [ $RANK = 0 ] || printf 'x'`)
	f.order.Progress = `^step (?P<step>\d+)(?: loss (?P<loss>\S+))?$`
	f.order.Resume = &record.Checkpoint{Dir: "/c/step-10", Step: 10, Samples: 640}
	r := f.start().stopped()
	if p := r.Progress; !r.Stopped.Finished || p == nil || p.Step != 87 || p.Loss != nil {
		t.Fatalf("failed %+v, progress %+v", r.Failed, r.Progress)
	}
	if want := "it resumed from step 10 and its lines count from the beginning"; !strings.Contains(r.ProgressProblem, want) {
		t.Errorf("problem %q, want …%s…", r.ProgressProblem, want)
	}
}

// A loss that is printed as no number is told as one, as where the module tells it.
func TestAPrintedLossThatIsNoNumber(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `echo "step 5 loss nan"`)
	f.order.Progress = `step (?P<step>\d+) loss (?P<loss>\S+)`
	if p := f.start().stopped().Progress; p == nil || p.Step != 5 || p.BadLosses != 1 || p.Losses != 0 {
		t.Errorf("progress %+v", p)
	}
}

// The module's word goes before the lines.
func TestLinesDoNotCountBesideTheModule(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(`
import bellows, time
bellows.report(3)
print("step 900", flush=True)
print("step 1", flush=True)
bellows.report(4)
`)
	f.order.Progress = `step (\d+)`
	r := f.start().stopped()
	if p := r.Progress; p == nil || p.Step != 4 || r.ProgressProblem != "" {
		t.Errorf("failed %+v, progress %+v, problem %q", r.Failed, r.Progress, r.ProgressProblem)
	}
}

// A pattern of a version that knows more is no reason not to run.
func TestAPatternThatIsNotKnownHere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `echo step 5`)
	f.order.Progress = `step (?P<tokens>\d+)`
	if r := f.start().stopped(); !r.Stopped.Finished || r.Progress != nil || !strings.Contains(r.ProgressProblem, "its lines are not read on this node") {
		t.Errorf("failed %+v, progress %+v, problem %q", r.Failed, r.Progress, r.ProgressProblem)
	}
}

// The words of frameworks for too little memory are told of the worker that had them, also
// where another's end was seen first; what is only said on the way is not.
func TestOutOfMemoryIsRecognised(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]bool{
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.":                              true,
		"torch.cuda.OutOfMemoryError: HIP out of memory.":                                                      true,
		"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes.": true,
		"RuntimeError: [enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory":       true,
		"ValueError: the memory of this model is out of date":                                                  false,
		"grpc: received message larger than max: RESOURCE_EXHAUSTED":                                           false,
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, `if [ $RANK = 1 ]; then echo "`+words+`"; exit 1; fi; sleep 1000`)
			if !strings.HasPrefix(words, "torch.OutOfMemoryError") {
				f.repeats()
			}
			if r := f.start().stopped(); r.Failed == nil || r.Failed.OutOfMemory != want {
				t.Errorf("failed %+v, want out of memory: %t", r.Failed, want)
			}
		})
	}
}
