package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// models are those of the clusters below.
var models = []string{"a100", "k80", "v100"}

// mixed is a random question whose devices are of several models, on some nodes side by side.
// Most jobs know how fast they are on each, and some may have several at once.
func mixed(seed uint64, plain bool) allocator.Input {
	r := rand.New(rand.NewPCG(seed, 5))
	in := random(seed, plain)
	for n := range in.Nodes {
		model := models[r.IntN(len(models))]
		both := r.IntN(5) == 0
		for d := range in.Nodes[n].Devices {
			in.Nodes[n].Devices[d].Model = model
			if both && d%2 == 1 {
				in.Nodes[n].Devices[d].Model = models[r.IntN(len(models))]
			}
		}
	}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		j.Mixed = r.IntN(4) == 0
		if r.IntN(4) == 0 {
			continue
		}
		for _, m := range models {
			j.Models = append(j.Models, allocator.OnModel{Model: m, Rate: 0.2 + 3*r.Float64(), Speeds: j.Speeds, Preferred: r.IntN(8) == 0})
		}
	}
	return in
}

// modelsOf are the models of the devices of an allocation that are there.
func modelsOf(in allocator.Input, a cluster.Allocation) (out []string) {
	for _, n := range in.Nodes {
		for _, d := range n.Devices {
			for _, p := range a.Placements {
				if p.Node == n.ID && slices.Contains(p.Devices, d.ID) && !slices.Contains(out, d.Model) {
					out = append(out, d.Model)
				}
			}
		}
	}
	return out
}

// Whatever the policy, no world has devices of several models unless its job allows that or must
// keep what it has, everything that is decided has a place, and is of the model that was decided.
func TestWorldsAreOfOneModel(t *testing.T) {
	for _, name := range policy.Names() {
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			var of, wide, moved int
			for seed := range uint64(seeds) {
				in := mixed(seed, seed%2 == 0)
				before := allocator.NewDevices(in)
				out := ask(t, p, in)
				next := adopt(t, in, out)
				for i, j := range next.Jobs {
					was, now := in.Jobs[i], modelsOf(in, j.Present)
					switch d := out.Decisions[i]; {
					case j.Workers == 0:
					case len(now) == 1 && (d.Model == "" || d.Model == now[0]):
						if of++; was.Workers > 0 && !slices.Equal(modelsOf(in, was.Present), now) {
							moved++
						}
					case len(now) > 1 && d.Model == "" && (was.Mixed || before.MustKeep(was) || before.Stays(was)):
						wide++
					case len(now) == 0 && before.MustKeep(was): // on devices that are gone
					default:
						t.Fatalf("seed %d: %s has devices of %v: %+v\nof %+v", seed, j.ID, now, d, was)
					}
				}
			}
			if of < 100 || wide == 0 || moved == 0 {
				t.Errorf("%d worlds of one model, %d of several, %d jobs moved to another: too few to tell anything", of, wide, moved)
			}
		})
	}
}

// Nodes that are all of one model are decided about as if models did not exist.
func TestOneModelIsNoneAtAll(t *testing.T) {
	each(t, false, func(t *testing.T, p allocator.Policy, in allocator.Input) {
		want := ask(t, p, in)
		for n := range in.Nodes {
			for d := range in.Nodes[n].Devices {
				in.Nodes[n].Devices[d].Model = "v100"
			}
		}
		got := ask(t, p, in)
		if !slices.Equal(got.Decisions, want.Decisions) || got.Value != want.Value || got.Bound != want.Bound {
			t.Errorf("of one model %+v, without %+v", got.Decisions, want.Decisions)
		}
	})
}

// A few jobs whose speeds differ by model, as they run alone on a node of each.
func TestJobsGoWhereTheyGain(t *testing.T) {
	nodes := []cluster.Node{node("n1", "v100", 4), node("n2", "k80", 4)}
	job := func(name string, most int, v100, k80 float64, on *cluster.Node) allocator.JobView {
		j := allocator.JobView{
			ID: cluster.JobID(name), BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch, Work: allocator.Left(10 * time.Hour),
			Models: []allocator.OnModel{{Model: "k80", Rate: k80}, {Model: "v100", Rate: v100}},
		}
		for k := 1; k <= most; k *= 2 {
			j.Sizes = append(j.Sizes, k)
		}
		if on != nil {
			run(&j, []cluster.Placement{{Node: on.ID, Devices: on.Usable()}})
		}
		return j
	}
	for _, c := range []struct {
		name string
		jobs []allocator.JobView
		want map[string]string
	}{
		{
			"alone it has the fastest",
			[]allocator.JobView{job("a", 4, 3, 1, nil)},
			map[string]string{"a": "v100"},
		},
		{
			"of two the one that gains most by it",
			[]allocator.JobView{job("a", 4, 2, 1, nil), job("b", 4, 5, 1, nil)},
			map[string]string{"a": "k80", "b": "v100"},
		},
		{
			"also where both run already",
			[]allocator.JobView{job("a", 4, 2, 1, &nodes[0]), job("b", 4, 5, 1, &nodes[1])},
			map[string]string{"a": "k80", "b": "v100"},
		},
		{
			"a small difference is not worth a start",
			[]allocator.JobView{job("a", 4, 1.03, 1, &nodes[0]), job("b", 4, 1.05, 1, &nodes[1])},
			map[string]string{"a": "v100", "b": "k80"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := policy.ByName(policy.Default)
			if err != nil {
				t.Fatal(err)
			}
			in := allocator.Input{Now: epoch.Add(time.Minute), Nodes: nodes, Jobs: c.jobs, Interval: 5 * time.Minute}
			for _, d := range ask(t, p, in).Decisions {
				if d.Workers == 0 || d.Model != c.want[string(d.Job)] {
					t.Errorf("%+v, want it on %s", d, c.want[string(d.Job)])
				}
			}
		})
	}
}

func node(name, model string, devices int) cluster.Node {
	n := cluster.Node{ID: cluster.NodeID(name)}
	for d := range devices {
		n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s-%d", name, d)), Model: model, Health: cluster.Healthy})
	}
	return n
}

// While jobs take turns the default policy looks at how long they are: the long one has the fast model,
// where it would be waited for least, and of the short ones those go to the slow model that would wait longer
// for the fast one. With devices for all it leaves that to Run.
func TestTurnsAreShort(t *testing.T) {
	p, err := policy.ByName(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	in := allocator.Input{Now: epoch.Add(time.Minute), Nodes: []cluster.Node{node("n1", "v100", 1), node("n2", "k80", 1)}, Interval: 5 * time.Minute}
	for n, left := range []time.Duration{9 * time.Hour, time.Hour, time.Hour, time.Hour} {
		in.Jobs = append(in.Jobs, allocator.JobView{
			ID: cluster.JobID(fmt.Sprint("j", n)), Sizes: []int{1}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch, Work: allocator.Left(left),
			Models: []allocator.OnModel{{Model: "k80", Rate: 1}, {Model: "v100", Rate: 3}},
		})
	}
	choose := p.(allocator.Chooser).Choose //nolint:forcetypeassert // it is one
	got, binding := choose(in)
	slow := 0
	for id, model := range got {
		if model == "k80" && id != "j0" {
			slow++
		}
	}
	if len(got) != 4 || got["j0"] != "v100" || slow != 1 || binding {
		t.Errorf("%v, binding %t; want the long one and two short ones on v100", got, binding)
	}
	// One that runs is left where it is if what it would gain is less than its start costs.
	run(&in.Jobs[3], []cluster.Placement{{Node: "n2", Devices: in.Nodes[1].Usable()}})
	in.Jobs[3].Work = allocator.Left(time.Minute)
	if got, _ = choose(in); got["j3"] != "k80" {
		t.Errorf("%v, want j3 where it ends in a minute", got)
	}
	in.Jobs = in.Jobs[:2]
	if got, _ = choose(in); len(got) != 0 {
		t.Errorf("%v with devices for all", got)
	}
}

// A preference steers the job that has it, which waits there for as long as it really takes: of two long ones that are
// as fast on both models the one that prefers a model has it, and the short one goes before that, not before the other.
func TestWhoPrefersAModelWaitsForIt(t *testing.T) {
	p, err := policy.ByName(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefers := range models[1:] {
		in := allocator.Input{Now: epoch.Add(time.Minute), Nodes: []cluster.Node{node("n1", "v100", 1), node("n2", "k80", 1)}, Interval: 5 * time.Minute}
		for n, left := range []time.Duration{6 * time.Hour, 6 * time.Hour, 3 * time.Hour} {
			in.Jobs = append(in.Jobs, allocator.JobView{
				ID: cluster.JobID(fmt.Sprint("j", n)), Sizes: []int{1}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch, Work: allocator.Left(left),
				Models: []allocator.OnModel{{Model: "k80", Rate: 1, Preferred: n == 0 && prefers == "k80"}, {Model: "v100", Rate: 1, Preferred: n == 0 && prefers == "v100"}},
			})
		}
		got, _ := p.(allocator.Chooser).Choose(in) //nolint:forcetypeassert // it is one
		if got["j0"] != prefers || got["j1"] == prefers || got["j2"] != prefers {
			t.Errorf("j0 prefers %s: %v", prefers, got)
		}
	}
}
