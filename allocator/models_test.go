package allocator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// of is a node whose devices are of a model.
func of(id, model string, devices int) cluster.Node {
	n := node(id, devices)
	for d := range n.Devices {
		n.Devices[d].Model = model
	}
	return n
}

// widest gives each job, in their order, as many workers as it can.
func widest(in allocator.Input) (out allocator.Output) {
	devices := allocator.NewDevices(in)
	free := devices.Usable()
	for _, j := range in.Jobs {
		if devices.MustKeep(j) {
			free -= j.Workers
		}
	}
	for _, j := range in.Jobs {
		d := allocator.Decision{Job: j.ID}
		for _, k := range j.Sizes {
			if k <= min(free, devices.UsableFor(j)) && !devices.MustKeep(j) {
				d.Workers = k
			}
		}
		free -= d.Workers
		if devices.MustKeep(j) {
			d.Workers = j.Workers
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out
}

// fast is a job that is so many times as fast on devices of model a.
func fast(id string, times float64) allocator.JobView {
	j := job(id, 0)
	j.Work = allocator.Left(time.Hour)
	j.Models = []allocator.OnModel{{Model: "a", Rate: times}, {Model: "b", Rate: 1}}
	return j
}

func decided(t *testing.T, in allocator.Input) []allocator.Decision {
	t.Helper()
	out, err := allocator.Run(answer(widest), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Decisions
}

func TestAWorldIsOfOneModel(t *testing.T) {
	in := allocator.Input{Nodes: []cluster.Node{of("m", "a", 2), of("n", "b", 2)}, Jobs: []allocator.JobView{job("x", 0)}}
	if d := decided(t, in)[0]; d.Workers != 2 || d.Model != "a" {
		t.Errorf("%+v, want 2 workers on one model", d)
	}
	// Where no model has as many as it needs, it says so, or has several where it may.
	in.Jobs[0].Sizes = []int{4}
	if d := decided(t, in)[0]; d.Workers != 0 || d.Reason != "needs at least 4 devices of one model; there are 2 of a, 2 of b: it would start on several with --mix-models" {
		t.Errorf("%+v", d)
	}
	in.Jobs[0].Mixed = true
	if d := decided(t, in)[0]; d.Workers != 4 || d.Model != "" || d.BatchSize == 0 {
		t.Errorf("%+v, want 4 workers on any model", d)
	}
	in.Jobs[0].Excluded = []cluster.NodeID{"n"}
	if d := decided(t, in)[0]; d.Reason != "needs at least 4 devices; the nodes that can run it have 2 usable" {
		t.Errorf("%+v", d)
	}
}

// inOrder gives each job what it can have, and none to those after one that waits.
func inOrder(in allocator.Input) (out allocator.Output) {
	free := allocator.NewDevices(in).Usable()
	for _, j := range in.Jobs {
		d := allocator.Decision{Job: j.ID, Workers: j.Workers}
		for _, k := range j.Sizes {
			if j.Workers == 0 && k <= free {
				d.Workers = k
			}
		}
		if free -= d.Workers; d.Workers == 0 {
			free = 0
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out
}

// A job that no model is enough for, and that may have several, has its turn as any other: where it is first,
// others have what it leaves, and where others wait for it so do those that one model would be enough for.
func TestAWideJobHasItsTurn(t *testing.T) {
	m, n := of("m", "a", 2), of("n", "b", 2)
	wide, small := job("wide", 0), job("small", 0)
	wide.Sizes, wide.Mixed, small.Sizes = []int{3}, true, []int{1}
	in := allocator.Input{Nodes: []cluster.Node{m, n}, Jobs: []allocator.JobView{wide, small, job("other", 0)}}
	d := decided(t, in)
	if d[0].Workers != 3 || d[0].Model != "" || d[0].Reason != "on several models of devices, as none has 3" || d[1].Workers != 1 || d[1].Model == "" || d[2].Workers != 0 {
		t.Errorf("first of all: %+v", d)
	}
	in.Jobs = []allocator.JobView{on(small, m, 0), wide, small}
	in.Jobs[0].ID, in.Jobs[0].Sizes, in.Jobs[0].Workers = "runs", []int{2}, 2
	in.Jobs[0].Present = on(small, m, 0, 1).Present
	out, err := allocator.Run(answer(inOrder), in)
	if d = out.Decisions; err != nil || d[0].Workers != 2 || d[1].Workers != 0 || d[2].Workers != 0 {
		t.Errorf("%v: one passes it while it waits: %+v", err, d)
	}
	// What cannot start at all holds no other job up.
	in.Jobs = []allocator.JobView{wide, small}
	in.Jobs[0].Mixed = false
	if out, err = allocator.Run(answer(inOrder), in); err != nil || out.Decisions[1].Workers != 1 {
		t.Errorf("%v: behind one that cannot start: %+v", err, out.Decisions)
	}
	// One that runs gives way as any other.
	in.Jobs = []allocator.JobView{small, wide}
	in.Jobs[0].Sizes = []int{2}
	x := on(wide, m, 0, 1)
	x.Present.Placements, x.Workers = append(x.Present.Placements, on(wide, n, 0).Present.Placements...), 3
	in.Jobs[1] = x
	if d = decided(t, in); d[0].Workers != 2 || d[0].Model == "" || d[1].Workers != 0 {
		t.Errorf("one that is behind keeps its devices: %+v", d)
	}
}

// choosy is a policy that chooses the models itself.
type choosy struct {
	answer
	of      map[cluster.JobID]string
	binding bool
}

func (c choosy) Choose(allocator.Input) (map[cluster.JobID]string, bool) { return c.of, c.binding }

// A policy that chooses models has its way, where that is binding also if another model's devices are
// idle; what it chooses and cannot be is decided as without.
func TestAPolicyMayChooseModels(t *testing.T) {
	in := allocator.Input{Nodes: []cluster.Node{of("m", "a", 1), of("n", "b", 1)}, Jobs: []allocator.JobView{fast("x", 3), fast("y", 3)}}
	out, err := allocator.Run(choosy{answer(widest), map[cluster.JobID]string{"x": "b", "y": "b"}, true}, in)
	if d := out.Decisions; err != nil || d[0].Model != "b" || d[1].Workers != 0 {
		t.Errorf("%v: %+v", err, d)
	}
	out, err = allocator.Run(choosy{answer(widest), map[cluster.JobID]string{"x": "b", "y": "b"}, false}, in)
	if d := out.Decisions; err != nil || d[0].Model != "b" || d[1].Model != "a" {
		t.Errorf("not binding: %v: %+v", err, d)
	}
	out, err = allocator.Run(choosy{answer(widest), map[cluster.JobID]string{"x": "c"}, true}, in)
	if d := out.Decisions; err != nil || d[0].Workers != 1 || d[1].Workers != 1 {
		t.Errorf("of a model that there is none of: %v: %+v", err, d)
	}
}

// It keeps what it may not leave, whatever that is of, and its devices are no one else's.
func TestWhatMustStayStaysOnSeveralModels(t *testing.T) {
	m, n := of("m", "a", 2), of("n", "b", 2)
	x := on(job("x", 0), m, 0, 1)
	x.Present.Placements = append(x.Present.Placements, on(job("x", 0), n, 0, 1).Present.Placements...)
	x.Workers, x.Pinned = 4, true
	in := allocator.Input{Nodes: []cluster.Node{m, n}, Jobs: []allocator.JobView{x, job("y", 0)}}
	if d := decided(t, in); d[0].Workers != 4 || d[0].Model != "" || d[1].Workers != 0 {
		t.Errorf("pinned: %+v", d)
	}
	in.Jobs[0].Pinned = false
	d := decided(t, in)
	if d[0].Workers != 2 || d[1].Workers != 2 || d[0].Model == "" || d[0].Model == d[1].Model {
		t.Errorf("free to go: %+v", d)
	}
	in.Between = true
	if d := decided(t, in); d[0].Workers != 4 || d[1].Workers != 0 {
		t.Errorf("between two intervals: %+v", d)
	}
}

// A job that waits for the model on which it would gain starts on another whose devices are idle;
// one that runs is not halted for a model on which it would wait.
func TestIdleDevicesOfAnotherModelAreUsed(t *testing.T) {
	m, n := of("m", "a", 1), of("n", "b", 1)
	x, y, z := fast("x", 3), fast("y", 3), fast("z", 3)
	in := allocator.Input{Nodes: []cluster.Node{m, n}, Jobs: []allocator.JobView{x, y, z}, Interval: time.Minute}
	var at []string
	for _, d := range decided(t, in) {
		at = append(at, d.Model)
	}
	if slices.Sort(at); !slices.Equal(at, []string{"", "a", "b"}) {
		t.Errorf("started on %q", at)
	}
	in.Jobs = []allocator.JobView{on(x, m, 0), on(y, n, 0)}
	in.Jobs[1].Models[0].Rate = 20 // it would rather be where x is
	in.Jobs[0].Pinned = true
	if d := decided(t, in); d[0].Workers != 1 || d[1].Workers != 1 || d[1].Model != "b" {
		t.Errorf("beside one that keeps its device: %+v", d)
	}
}

// Two jobs that would each only crowd the other's model change places where both together gain.
func TestJobsChangePlaces(t *testing.T) {
	m, n := of("m", "a", 1), of("n", "b", 1)
	x, y := on(fast("x", 1.5), m, 0), on(fast("y", 3), n, 0)
	x.Work, y.Work = allocator.Left(10*time.Hour), allocator.Left(10*time.Hour)
	in := allocator.Input{Nodes: []cluster.Node{m, n}, Jobs: []allocator.JobView{x, y}, Interval: time.Minute}
	d := decided(t, in)
	if d[0].Model != "b" || d[1].Model != "a" || !strings.HasPrefix(d[0].Reason, "on b instead of a") || !strings.HasPrefix(d[1].Reason, "on a instead of b") {
		t.Errorf("%+v", d)
	}
	in.Jobs[1].Models[0].Rate = 1.6 // too little to pay for two starts
	if d = decided(t, in); d[0].Model != "a" || d[1].Model != "b" {
		t.Errorf("for a gain of 7 %%: %+v", d)
	}
}

// A preferred model counts as twice as fast.
func TestAPreferredModel(t *testing.T) {
	in := allocator.Input{Nodes: []cluster.Node{of("m", "a", 1), of("n", "b", 1)}, Interval: time.Minute}
	for times, want := range map[float64]string{1.9: "b", 2.1: "a"} {
		j := fast("x", times)
		j.Models[1].Preferred = true
		in.Jobs = []allocator.JobView{j}
		if d := decided(t, in); d[0].Model != want {
			t.Errorf("where the other one is %v times as fast: %+v", times, d)
		}
	}
}

// What a job is told of a model is in that model's own terms.
func TestAJobOnAModel(t *testing.T) {
	j := job("x", 0)
	j.Work, j.Alike, j.Speeds = allocator.Left(time.Hour), []time.Duration{2 * time.Hour}, []float64{1, 1.5, 2}
	j.Models = []allocator.OnModel{{Model: "a", Rate: 4, Speeds: []float64{1, 1.9, 3.6}}, {Model: "b"}}
	if on := j.On("a"); on.Work.Left != 15*time.Minute || on.Alike[0] != 30*time.Minute || on.Speeds[2] != 3.6 || on.Models != nil {
		t.Errorf("%+v", on)
	}
	if on := j.On("b"); on.Work.Left != time.Hour || on.Speeds != nil {
		t.Errorf("where its speed is unknown: %+v", on)
	}
	if on := j.On("c"); on.Work.Left != time.Hour || on.Speeds[2] != 2 || j.Alike[0] != 2*time.Hour {
		t.Errorf("on one that it was not told of: %+v of %+v", on, j)
	}
}

// Each model's policy has a memory of its own, and one that breaks a rule is named with its model.
func TestEachModelIsAskedByItself(t *testing.T) {
	in := allocator.Input{Nodes: []cluster.Node{of("m", "a", 1), of("n", "b", 1)}, Jobs: []allocator.JobView{fast("x", 3), fast("y", 1)}}
	var heard []string
	remembers := answer(func(in allocator.Input) allocator.Output {
		heard = append(heard, string(in.Memory))
		out := widest(in)
		out.Memory, out.Value, out.Bound = []byte(in.Nodes[0].Devices[0].Model), 1, 2
		return out
	})
	out, err := allocator.Run(remembers, in)
	if err != nil || out.Value != 2 || out.Bound != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	in.Memory = out.Memory
	if _, err = allocator.Run(remembers, in); err != nil || !slices.Equal(heard, []string{"", "", "a", "b"}) {
		t.Errorf("remembered %q: %v", heard, err)
	}
	_, err = allocator.Run(answer(func(in allocator.Input) allocator.Output {
		if in.Nodes[0].ID == "n" {
			return allocator.Output{}
		}
		return widest(in)
	}), in)
	if err == nil || !strings.Contains(err.Error(), `devices of model "b"`) {
		t.Errorf("a policy that forgets a job: %v", err)
	}
	if errors.Unwrap(err) == nil {
		t.Error("the fault itself is lost")
	}
}
