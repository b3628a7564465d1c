package elasticflow

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

func on(nodes, perNode int) sim.Machines { return sim.Machines{Nodes: nodes, DevicesPerNode: perNode} }

func fixture(t *testing.T) (trace.File, trace.Profile) {
	t.Helper()
	opened := func(name string) *os.File {
		f, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	f, err := trace.Read("trace.csv", opened("trace.csv"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := trace.ReadProfile("profile.csv", opened("profile.csv"), trace.Keep)
	if err != nil {
		t.Fatal(err)
	}
	return f, p
}

// simulated are the ends, in seconds, that ElasticFlow's simulator
// (github.com/pkusys/ElasticFlow at 04a0109, scheduler.py with a slot of 60 s)
// gives for the same 36 jobs; 0 = dropped. For elasticflow it was told that jobs have at most 16
// devices, those of cifar10 one: its own table knows other batches.
var simulated = []struct {
	policy    string
	on        sim.Machines
	satisfied int
	ends      [36]int
}{
	{
		"edf",
		on(4, 4),
		10,
		[36]int{
			1378, 667, 401, 1672, 5449, 1282, 2229, 869, 2661, 1991, 3347, 3900, 1843, 9411, 14184, 5868, 13243, 2484,
			10717, 2825, 12634, 23932, 3028, 4073, 12835, 20022, 4596, 4100, 4327, 6374, 13578, 5481, 6808, 19657, 17605, 23634,
		},
	},
	{
		"edf-admission",
		on(4, 4),
		15,
		[36]int{
			1052, 0, 0, 1382, 4207, 0, 1838, 865, 2141, 1643, 2746, 3313, 0, 0, 6957, 0, 6306, 0,
			0, 0, 5758, 0, 0, 0, 0, 9244, 0, 0, 0, 0, 6539, 4241, 0, 0, 0, 0,
		},
	},
	{
		"tiresias",
		on(4, 4),
		12,
		[36]int{
			9169, 418, 501, 2219, 8243, 980, 2324, 926, 2149, 3241, 6220, 2752, 1901, 6166, 6230, 4628, 6327, 2811,
			5199, 3173, 9869, 12270, 3441, 3897, 5289, 10918, 6841, 4089, 4678, 6389, 5775, 4339, 5338, 9893, 6952, 13121,
		},
	},
	{
		"edf",
		on(32, 8),
		28,
		[36]int{
			945, 547, 401, 687, 1239, 1282, 911, 863, 1258, 1302, 1718, 2329, 1821, 5017, 2526, 2593, 2935, 2535,
			6358, 2825, 4321, 6818, 3028, 3231, 6572, 5576, 4002, 3775, 4064, 4316, 4101, 4004, 4842, 11164, 8231, 8577,
		},
	},
	{
		"edf-admission",
		on(32, 8),
		28,
		[36]int{
			1025, 0, 0, 711, 1319, 0, 932, 880, 1296, 1340, 1739, 2392, 1849, 0, 2568, 2635, 2944, 2548,
			0, 2832, 4440, 7035, 3052, 3205, 0, 5706, 4044, 3792, 0, 4358, 4139, 4021, 4863, 0, 8282, 8605,
		},
	},
	{
		"tiresias",
		on(32, 8),
		17,
		[36]int{
			2095, 423, 506, 2224, 7220, 985, 2329, 926, 2154, 3246, 3546, 2757, 1901, 4160, 5492, 4618, 4645, 2770,
			4910, 3183, 6510, 6862, 3451, 3668, 5294, 7564, 4565, 3950, 3926, 5599, 5696, 4245, 5258, 8030, 6957, 8654,
		},
	},
	{
		"elasticflow",
		on(4, 4),
		28,
		[36]int{
			1212, 459, 0, 0, 0, 0, 1091, 869, 1802, 1801, 2210, 3361, 1890, 4450, 5463, 3082, 6063, 2525,
			5071, 3033, 6115, 6686, 3269, 3477, 5807, 7406, 4195, 3872, 0, 0, 6009, 4244, 5017, 0, 7117, 7721,
		},
	},
	{
		"elasticflow",
		on(32, 8),
		26,
		[36]int{
			1040, 469, 0, 0, 0, 0, 1040, 863, 1279, 1313, 1807, 2326, 1843, 4031, 2554, 2621, 3038, 2539,
			5073, 2847, 4412, 5546, 3038, 3188, 5409, 5679, 4030, 3931, 0, 0, 0, 4004, 4856, 0, 6990, 7260,
		},
	},
	{
		"gandiva",
		on(4, 4),
		9,
		[36]int{
			3060, 434, 509, 2263, 7275, 1004, 2364, 934, 2156, 3279, 4847, 2954, 2089, 4788, 6658, 5783, 6722, 3518,
			7945, 3977, 9919, 13075, 4125, 4256, 5772, 9210, 9459, 5964, 5400, 6713, 7830, 6959, 5904, 8600, 9147, 13557,
		},
	},
	{
		"gandiva",
		on(32, 8),
		15,
		[36]int{
			2277, 449, 861, 2323, 7425, 1306, 2428, 939, 2191, 3368, 3722, 3017, 2094, 4347, 5618, 4762, 4832, 2792,
			5045, 3191, 6642, 7013, 3509, 3701, 5375, 7572, 7604, 3932, 3963, 5618, 5756, 4231, 5284, 8943, 6957, 8577,
		},
	},
}

func TestAgreesWithItsSimulator(t *testing.T) {
	for _, c := range simulated {
		f, p := fixture(t)
		rules, jobs, err := New(c.policy, f, Setup{Machines: c.on, Slot: time.Minute, Profile: p})
		if err != nil {
			t.Fatal(err)
		}
		r, err := sim.Run(sim.Config{Jobs: jobs, Nodes: c.on.Nodes, DevicesPerNode: c.on.DevicesPerNode, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range r.Jobs {
			if want := time.Duration(c.ends[i]) * time.Second; o.Phase == cluster.Succeeded && o.End != want || o.Phase != cluster.Succeeded && want != 0 {
				t.Errorf("%s on %v: %s %s at %v, want %v", c.policy, c.on, o.ID, o.Phase, o.End, want)
			}
		}
		sum, last := r.Summary(), time.Duration(slices.Max(c.ends[:]))*time.Second
		if got := sum.DeadlineSatisfied; got == nil || *got != float64(c.satisfied)/36 {
			t.Errorf("%s on %v: %v of the deadlines kept, want %d of 36", c.policy, c.on, got, c.satisfied)
		}
		if want := (last - jobs[0].Submit).Seconds(); sum.MakespanS != want {
			t.Errorf("%s on %v: makespan %v, want %v: a job that never ran does not count", c.policy, c.on, sum.MakespanS, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	good, p := fixture(t)
	with := func(change func(a *trace.Arrival)) trace.File {
		a := good.Arrivals[0]
		change(&a)
		return trace.File{Name: "x.csv", Arrivals: []trace.Arrival{a}}
	}
	for _, c := range []struct {
		policy string
		file   trace.File
		on     sim.Machines
		slot   time.Duration
		want   string
	}{
		{"magic", good, on(4, 4), time.Minute, `policy "magic": the rules elasticflow know edf, edf-admission, elasticflow, tiresias, gandiva`},
		{"edf", good, on(3, 4), time.Minute, "3 nodes of 4 devices: the rules elasticflow need a power of two on each node"},
		{"edf", good, on(32, 3), time.Minute, "32 nodes of 3 devices"},
		{"edf", good, on(4, 4), 1500 * time.Millisecond, "an interval of 1.5s: the rules elasticflow count whole seconds"},
		{"edf", good, on(4, 4), 0, "an interval of 0s"},
		{"edf", with(func(a *trace.Arrival) { a.Deadline = 0 }), on(4, 4), time.Minute, `x.csv:2: job "0": it has no deadline, iterations or duration`},
		{"edf", with(func(a *trace.Arrival) { a.Submit++ }), on(4, 4), time.Minute, "count whole seconds"},
		{"edf", with(func(a *trace.Arrival) { a.BatchSize = 31 }), on(4, 4), time.Minute, "the profile has no speed for it"},
		{"edf", with(func(a *trace.Arrival) { a.Workers = 3 }), on(4, 4), time.Minute, "on 3 devices: the rules elasticflow need powers of two"},
		{"gandiva", with(func(a *trace.Arrival) { a.Workers = 512 }), on(64, 8), time.Minute, "on 512 devices: the rules elasticflow need powers of two, and 256 devices at most"},
		{"tiresias", with(func(a *trace.Arrival) { a.Workers = 4 }), on(1, 2), time.Minute, "it asks for 4 devices and the cluster has 2: use more nodes"},
	} {
		if _, _, err := New(c.policy, c.file, Setup{Machines: c.on, Slot: c.slot, Profile: p}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant …%s…", err, c.want)
		}
	}
}
