package allocator_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// answer is a policy that says what it is told to say.
type answer func(allocator.Input) allocator.Output

func (answer) Name() string                                   { return "test" }
func (a answer) Allocate(in allocator.Input) allocator.Output { return a(in) }

func node(id string, devices int) cluster.Node {
	n := cluster.Node{ID: cluster.NodeID(id)}
	for i := range devices {
		n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s-%d", id, i)), Health: cluster.Healthy})
	}
	return n
}

func job(id string, workers int) allocator.JobView {
	return allocator.JobView{
		ID: cluster.JobID(id), Sizes: []int{1, 2, 4}, Workers: workers,
		BatchSize: cluster.BatchSize{Min: 32, Max: 128},
	}
}

// on puts a job on devices of one node.
func on(j allocator.JobView, n cluster.Node, devices ...int) allocator.JobView {
	p := cluster.Placement{Node: n.ID}
	for _, d := range devices {
		p.Devices = append(p.Devices, n.Devices[d].ID)
	}
	j.Present = cluster.Allocation{Job: j.ID, Placements: []cluster.Placement{p}}
	j.Workers = len(devices)
	return j
}

func decide(workers ...int) answer {
	return func(in allocator.Input) allocator.Output {
		var out allocator.Output
		for i, w := range workers {
			out.Decisions = append(out.Decisions, allocator.Decision{Job: in.Jobs[i].ID, Workers: w})
		}
		return out
	}
}

func TestRunSortsAndFillsIn(t *testing.T) {
	in := allocator.Input{Nodes: []cluster.Node{node("a", 4)}, Jobs: []allocator.JobView{job("x", 0), job("y", 0)}}
	out, err := allocator.Run(answer(func(in allocator.Input) allocator.Output {
		slices.Reverse(in.Jobs) // a policy that disturbs its input disturbs only its own copy
		return allocator.Output{Value: 1, Bound: 2, Memory: []byte("m"), Decisions: []allocator.Decision{
			{Job: "y", Workers: 2, BatchSize: 64}, {Job: "x", Workers: 1, Reason: "r"},
		}}
	}), in)
	if err != nil {
		t.Fatal(err)
	}
	want := []allocator.Decision{{Job: "x", Workers: 1, BatchSize: 32, Reason: "r"}, {Job: "y", Workers: 2, BatchSize: 64}}
	if !slices.Equal(out.Decisions, want) || out.Value != 1 || out.Bound != 2 || string(out.Memory) != "m" {
		t.Errorf("got %+v", out)
	}
	if in.Jobs[0].ID != "x" {
		t.Error("the caller's jobs were reordered")
	}
}

func TestRunRefuses(t *testing.T) {
	a, b := node("a", 4), node("b", 4)
	two := []allocator.JobView{job("x", 0), job("y", 0)}
	sick := node("s", 4)
	sick.Devices[1].Health = cluster.Unhealthy
	gone := on(job("x", 0), node("gone", 4), 0, 1)
	pin := func(j allocator.JobView) allocator.JobView { j.Pinned = true; return j }
	not := func(j allocator.JobView, n ...cluster.NodeID) allocator.JobView { j.Excluded = n; return j }
	say := func(d ...allocator.Decision) answer {
		return func(allocator.Input) allocator.Output { return allocator.Output{Decisions: d} }
	}
	number := func(value, bound float64) answer {
		return func(allocator.Input) allocator.Output { return allocator.Output{Value: value, Bound: bound} }
	}
	for name, c := range map[string]struct {
		in   allocator.Input
		p    answer
		want string // "" = accepted
	}{
		"panic":                {allocator.Input{Jobs: two}, func(allocator.Input) allocator.Output { panic("boom 7") }, "ask policy test about 2 jobs on 0 nodes (seed 0, between false): panic: boom 7"},
		"missing":              {allocator.Input{Jobs: two}, decide(0), `policy test: job "y": no decision`},
		"twice":                {allocator.Input{Jobs: two}, say(allocator.Decision{Job: "x"}, allocator.Decision{Job: "y"}, allocator.Decision{Job: "x", Workers: 2}), `job "x": decided twice, on 0 and on 2`},
		"unknown":              {allocator.Input{}, say(allocator.Decision{Job: "z"}), `job "z": there is no such job`},
		"size":                 {allocator.Input{Nodes: []cluster.Node{a}, Jobs: two}, decide(3, 0), `job "x": 3 workers; it may have 0 or one of [1 2 4]`},
		"negative":             {allocator.Input{Nodes: []cluster.Node{a}, Jobs: two}, decide(-1, 0), `job "x": -1 workers`},
		"batch above":          {allocator.Input{Nodes: []cluster.Node{a}, Jobs: two[:1]}, say(allocator.Decision{Job: "x", Workers: 1, BatchSize: 129}), "batch size 129; it may be 32 to 128"},
		"batch below":          {allocator.Input{Nodes: []cluster.Node{a}, Jobs: two[:1]}, say(allocator.Decision{Job: "x", Workers: 1, BatchSize: -1}), "batch size -1"},
		"batch indivisible":    {allocator.Input{Nodes: []cluster.Node{a}, Jobs: two[:1]}, say(allocator.Decision{Job: "x", Workers: 4, BatchSize: 42}), "batch size 42 is not shared by its 4 workers"},
		"too many":             {allocator.Input{Nodes: []cluster.Node{a}, Jobs: two}, decide(4, 1), "5 workers beside those that stay where they are; only 4 devices"},
		"no nodes":             {allocator.Input{Jobs: two}, decide(1, 0), "have 0 usable devices"},
		"sick device":          {allocator.Input{Nodes: []cluster.Node{sick}, Jobs: two}, decide(2, 2), "only 3 devices"},
		"excluded":             {allocator.Input{Nodes: []cluster.Node{a, node("c", 1)}, Jobs: []allocator.JobView{not(two[0], "a", "a")}}, decide(2), "the nodes that can run it have 1 usable"},
		"pinned":               {allocator.Input{Nodes: []cluster.Node{a}, Jobs: []allocator.JobView{pin(on(two[0], a, 0, 1))}}, decide(4), `job "x": 4 workers instead of 2; it is pinned`},
		"pinned, devices gone": {allocator.Input{Nodes: []cluster.Node{a}, Jobs: []allocator.JobView{pin(gone)}}, decide(4), ""},
		"between":              {allocator.Input{Between: true, Nodes: []cluster.Node{a}, Jobs: []allocator.JobView{on(two[0], a, 0, 1)}}, decide(0), "between two intervals"},
		"between, gone":        {allocator.Input{Between: true, Nodes: []cluster.Node{a}, Jobs: []allocator.JobView{gone}}, decide(0), ""},
		"between, sick":        {allocator.Input{Between: true, Nodes: []cluster.Node{sick}, Jobs: []allocator.JobView{on(two[0], sick, 0, 1), two[1]}}, decide(2, 2), ""},
		"moves off sick":       {allocator.Input{Nodes: []cluster.Node{sick}, Jobs: []allocator.JobView{on(two[0], sick, 0, 1), two[1]}}, decide(2, 2), "4 workers beside those that stay where they are; only 3"},
		"cordoned keeps":       {allocator.Input{Nodes: []cluster.Node{cordon(a), b}, Jobs: []allocator.JobView{on(two[0], a, 0, 1, 2, 3), two[1]}}, decide(4, 4), ""},
		"cordoned, no growth":  {allocator.Input{Nodes: []cluster.Node{cordon(a), b}, Jobs: []allocator.JobView{on(two[0], a, 0, 1), two[1]}}, decide(4, 2), "6 workers beside those that stay where they are; only 4"},
		"NaN":                  {allocator.Input{}, number(math.NaN(), 0), "value NaN"},
		"infinite":             {allocator.Input{}, number(0, math.Inf(1)), "bound +Inf"},
		"bound below":          {allocator.Input{}, number(2, 1), "bound 1 is below the value 2"},
		"memory":               {allocator.Input{}, func(allocator.Input) allocator.Output { return allocator.Output{Memory: make([]byte, 1<<20+1)} }, "memory of 1048577 bytes"},
		"all faults":           {allocator.Input{Jobs: two}, decide(3, 5), "job \"x\": 3 workers; it may have 0 or one of [1 2 4]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := allocator.Run(c.p, c.in)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want …%s…", err, c.want)
			case err != nil && out.Decisions != nil:
				t.Error("an answer came with the error")
			}
		})
	}
}

func TestRunReportsManyFaultsBriefly(t *testing.T) {
	in := allocator.Input{}
	for i := range 1000 {
		in.Jobs = append(in.Jobs, job(fmt.Sprint(i), 0))
	}
	_, err := allocator.Run(decide(), in)
	if err == nil || !strings.Contains(err.Error(), "and 992 more") || len(err.Error()) > 2000 {
		t.Errorf("got %v", err)
	}
}

func cordon(n cluster.Node) cluster.Node {
	n.Cordoned = true
	return n
}

// Of a job whose batch ranges: the best where it starts, that in force where it stays,
// another where the policy says so, and none but that in force where it must keep its world.
func TestRunFillsInTheBestBatch(t *testing.T) {
	n := node("a", 4)
	waits := job("x", 0)
	waits.Batches = []int{32, 64, 128}
	stays := on(waits, n, 0, 1)
	stays.Present.BatchSize = 32
	pinned := stays
	pinned.Pinned = true
	for name, c := range map[string]struct {
		job     allocator.JobView
		workers int
		batch   int // that the policy says
		want    int // 0 = it is refused
	}{
		"starts":          {waits, 4, 0, 128},
		"stays":           {stays, 2, 0, 32},
		"grows":           {stays, 4, 0, 128},
		"is rebatched":    {stays, 2, 64, 64},
		"is pinned":       {pinned, 2, 0, 32},
		"is pinned, told": {pinned, 2, 64, 0},
	} {
		out, err := allocator.Run(answer(func(in allocator.Input) allocator.Output {
			return allocator.Output{Decisions: []allocator.Decision{{Job: "x", Workers: c.workers, BatchSize: c.batch}}}
		}), allocator.Input{Nodes: []cluster.Node{n}, Jobs: []allocator.JobView{c.job}})
		switch {
		case c.want == 0 && (err == nil || !strings.Contains(err.Error(), "batch size 64 instead of 32; it must keep its world")):
			t.Errorf("%s: %v", name, err)
		case c.want > 0 && (err != nil || out.Decisions[0].BatchSize != c.want):
			t.Errorf("%s: %+v, %v; want %d", name, out.Decisions, err, c.want)
		}
	}
}

func TestRunFillsInABatchThatTheWorkersCanShare(t *testing.T) {
	j := job("x", 0)
	j.Sizes = []int{3, 6}
	out, err := allocator.Run(decide(6), allocator.Input{Nodes: []cluster.Node{node("a", 8)}, Jobs: []allocator.JobView{j}})
	if err != nil || out.Decisions[0].BatchSize != 36 {
		t.Errorf("%+v, %v; want a batch of 36 on 6 workers", out.Decisions, err)
	}
	j.BatchSize.Uneven = true
	out, err = allocator.Run(decide(6), allocator.Input{Nodes: []cluster.Node{node("a", 8)}, Jobs: []allocator.JobView{j}})
	if err != nil || out.Decisions[0].BatchSize != 32 {
		t.Errorf("%+v, %v; want a batch of 32 on 6 workers with uneven shares", out.Decisions, err)
	}
	// What runs so stays.
	j = on(j, node("a", 8), 0, 1, 2)
	j.Present.BatchSize = 41
	out, err = allocator.Run(decide(3), allocator.Input{Nodes: []cluster.Node{node("a", 8)}, Jobs: []allocator.JobView{j}})
	if err != nil || out.Decisions[0].BatchSize != 41 {
		t.Errorf("%+v, %v; want that the batch of 41 stays on 3 workers", out.Decisions, err)
	}
}
