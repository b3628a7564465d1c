package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// What a job was promised in the running slot it gets before all others, whatever their
// deadlines, also where the rest cannot be planned at all: before one with an earlier
// deadline, and before one whose promise is for later slots.
func TestPromisedDevicesComeFirst(t *testing.T) {
	node := cluster.Node{ID: "n", Devices: []cluster.Device{{ID: "a", Health: cluster.Healthy}, {ID: "b", Health: cluster.Healthy}}}
	job := func(id cluster.JobID, deadline time.Duration) allocator.JobView {
		return allocator.JobView{
			ID: id, Sizes: []int{2}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch.Add(-time.Minute),
			Deadline: epoch.Add(deadline), Work: allocator.Left(time.Hour),
		}
	}
	for _, p := range promising(t) {
		name := p.Name()
		for _, slot := range []time.Duration{time.Minute, time.Microsecond} { // of which there are more to the last deadline than can be counted
			in := allocator.Input{Now: epoch, Nodes: []cluster.Node{node}, Interval: slot, Jobs: []allocator.JobView{
				job("early", time.Hour), job("later", 4*time.Hour), job("now", 5*time.Hour), job("never", 100*24*time.Hour),
			}}
			in.Jobs[1].Promise = &allocator.Promise{Due: epoch.Add(4 * time.Hour), First: slot, Slot: slot, Profile: cluster.Profile{{}, {From: 80, Devices: 2}, {From: 160}}}
			in.Jobs[2].Promise = &allocator.Promise{Due: epoch.Add(5 * time.Hour), First: slot, Slot: slot, Profile: cluster.Profile{{Devices: 2}, {From: 80}}}
			got := ask(t, p, in).Decisions
			for i, d := range got {
				if want := []int{0, 0, 2, 0}[i]; d.Workers != want {
					t.Errorf("%s, slots of %v: %+v", name, slot, got)
				}
			}
		}
	}
}

// The end of a job has moved into its reserve: no plan keeps the moment for which it was planned, and it has
// what it was promised all the same. Beside it lies a job to which others would give as much.
func TestWhatIsPromisedIsGivenInTheReserve(t *testing.T) {
	node := cluster.Node{ID: "n"}
	for k := range 4 {
		node.Devices = append(node.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprint("d", k)), Health: cluster.Healthy})
	}
	job := func(id cluster.JobID, left time.Duration) allocator.JobView {
		return allocator.JobView{
			ID: id, Sizes: []int{1, 2, 4}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch.Add(-time.Minute), Work: allocator.Left(left),
		}
	}
	for _, p := range promising(t) {
		in := allocator.Input{Now: epoch, Nodes: []cluster.Node{node}, Interval: time.Minute, Jobs: []allocator.JobView{job("other", 3*time.Hour), job("late", 3*time.Hour)}}
		in.Jobs[1].Promise = &allocator.Promise{Due: epoch.Add(40 * time.Minute), First: time.Minute, Slot: time.Minute, Profile: cluster.Profile{{Devices: 4}, {From: 80}}}
		if got := ask(t, p, in).Decisions; got[1].Workers != 4 {
			t.Errorf("%s: %+v", p.Name(), got)
		}
	}
}

// promising are all policies that promise deadlines: the default is one.
func promising(t *testing.T) (list []allocator.Policy) {
	t.Helper()
	for _, name := range policy.Names() {
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.(allocator.Promising); ok {
			list = append(list, p)
		}
	}
	if !slices.ContainsFunc(list, func(p allocator.Policy) bool { return p.Name() == policy.Default }) || len(list) < 13 {
		t.Fatalf("%d policies promise deadlines", len(list))
	}
	return list
}

// promise plans deadlines of some of a question's jobs with these sizes, as a coordinator
// would have, and returns how many devices that takes in the running slot.
func promise(t *testing.T, p allocator.Policy, in *allocator.Input) int {
	t.Helper()
	r := rand.New(rand.NewPCG(in.Seed, 6))
	in.Interval = time.Duration(1+r.IntN(9)) * time.Minute
	sizes := p.(allocator.Promising).PromiseSizes
	devices := allocator.NewDevices(*in)
	q := admit.Problem{Devices: devices.Usable(), First: in.Interval.Seconds() * (1 - r.Float64()), Slot: in.Interval.Seconds()}
	in.Jobs = slices.Clone(in.Jobs)
	due := map[cluster.JobID]time.Time{}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		if devices.MustKeep(*j) && !in.Between { // its devices are not the plan's
			q.Devices -= j.Workers
		}
		if r.IntN(2) == 0 || !j.Work.Known || j.Finishing() || len(j.Excluded) > 0 || devices.MustKeep(*j) {
			continue
		}
		due[j.ID] = in.Now.Add(time.Duration(float64(j.Work.Left) * (0.3 + 3*r.Float64())))
		job, ok := admit.Of(*j, admit.Terms{Now: in.Now, Sizes: sizes(j.Sizes), Work: j.Work.Left, Due: due[j.ID]})
		if ok {
			q.Jobs = append(q.Jobs, job)
		}
	}
	plan, err := admit.New(q)
	if err != nil {
		return 0
	}
	first := 0
	for id, profile := range plan.Profiles {
		i := slices.IndexFunc(in.Jobs, func(j allocator.JobView) bool { return j.ID == id })
		in.Jobs[i].Promise = &allocator.Promise{
			Due: due[id], Profile: profile, First: time.Duration(q.First * float64(time.Second)), Slot: in.Interval,
		}
		if r.IntN(3) == 0 { // it ends in the reserve, later than was planned
			in.Jobs[i].Promise.Due = due[id].Add(-due[id].Sub(in.Now) / 10)
		}
		first += profile.At(0)
	}
	return first
}

// On any cluster each job has at least what it was promised in the running slot, whatever
// else the policy is after, and what makes room for it says so.
func TestWhatIsPromisedIsGiven(t *testing.T) {
	for _, p := range promising(t) {
		given, gaveWay := 0, 0
		for seed := range uint64(seeds) {
			in := random(seed, true)
			in.Between = false
			if promise(t, p, &in) == 0 {
				continue
			}
			out := ask(t, p, in)
			adopt(t, in, out)
			for i, d := range out.Decisions {
				j := in.Jobs[i]
				if n := j.Promise.Now(); d.Workers < n {
					t.Fatalf("%s, seed %d: %s has %d workers, promised %d\n%+v", p.Name(), seed, j.ID, d.Workers, n, out.Decisions)
				} else if n > j.Workers {
					given++
				}
				if d.Workers < j.Workers && strings.Contains(d.Reason, "gives way to j") {
					gaveWay++
				}
			}
		}
		if given < 50 || gaveWay < 5 {
			t.Errorf("%s: %d promises given, %d jobs gave way: this shows little", p.Name(), given, gaveWay)
		}
	}
}

// A job that was promised its deadline takes part in what is left only as far as its
// deadline is kept still: it grows onto idle devices where the pauses there and back to its
// promise leave enough time, else it does not; and where its promise is for later, it
// begins before only so.
func TestAPromisedJobGrowsOnlyAsItsDeadlineAllows(t *testing.T) {
	for _, c := range []struct {
		name    string
		pause   time.Duration
		present int
		profile cluster.Profile
		want    func(workers int) bool
	}{
		{"cheap starts", time.Second, 2, cluster.Profile{{Devices: 2}, {From: 58}}, func(n int) bool { return n > 2 }},
		{"dear starts", 3 * time.Minute, 2, cluster.Profile{{Devices: 2}, {From: 58}}, func(n int) bool { return n == 2 }},
		{"later, cheap starts", time.Second, 0, cluster.Profile{{}, {From: 2, Devices: 2}, {From: 60}}, func(n int) bool { return n > 0 }},
		{"promised more", 3 * time.Minute, 2, cluster.Profile{{Devices: 4}, {From: 59}}, func(n int) bool { return n == 4 }},
	} {
		for _, name := range []string{"flowtime", "hesrpt", "hesrpt-steady", "hu", "optimus", "share", "elasticflow"} {
			p, err := policy.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			node := cluster.Node{ID: "n"}
			for k := range 8 {
				node.Devices = append(node.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprint("d", k)), Health: cluster.Healthy})
			}
			j := allocator.JobView{
				ID: "j", Sizes: []int{2, 4, 8}, Speeds: []float64{2, 2.2, 2.3}, StartCosts: []time.Duration{c.pause, c.pause, c.pause},
				BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch.Add(-time.Minute), Deadline: epoch.Add(time.Hour),
				Work:    allocator.Left(2 * 57 * time.Minute),
				Promise: &allocator.Promise{Due: epoch.Add(time.Hour), First: time.Minute, Slot: time.Minute, Profile: c.profile},
			}
			if c.profile.At(0) == 4 { // it is not sure that 2 would do, though they probably would, and sooner
				j.Work, j.Speeds, j.Careful = allocator.Left(84*time.Minute), []float64{1.59, 1.6, 1.61}, []float64{1.2, 1.6, 1.6}
			}
			if c.present > 0 {
				var on []cluster.Placement
				for k := range c.present {
					on = append(on, cluster.Placement{Node: "n", Devices: []cluster.DeviceID{node.Devices[k].ID}})
				}
				run(&j, on)
			} else {
				j.Work = allocator.Left(2 * 55 * time.Minute)
			}
			got := ask(t, p, allocator.Input{Now: epoch, Nodes: []cluster.Node{node}, Interval: time.Minute, Jobs: []allocator.JobView{j}})
			if n := got.Decisions[0].Workers; !c.want(n) {
				t.Errorf("%s, %s: %d workers", c.name, name, n)
			}
		}
	}
}

// A job that loses its devices is told that it gives way to a promise only where that needed them: not
// where what was promised was idle, and a shorter job takes its place.
func TestGivingWayIsToldOnlyWhereItIsNeeded(t *testing.T) {
	p, err := policy.ByName("srtf")
	if err != nil {
		t.Fatal(err)
	}
	for devices, want := range map[int]string{4: "waits: needs 2 devices", 2: "gives way to due, whose deadline is promised"} {
		node := cluster.Node{ID: "n"}
		for k := range devices {
			node.Devices = append(node.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprint("d", k)), Health: cluster.Healthy})
		}
		job := func(id cluster.JobID, left time.Duration) allocator.JobView {
			return allocator.JobView{ID: id, Sizes: []int{2}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch.Add(-time.Hour), Work: allocator.Left(left)}
		}
		due, long, short := job("due", time.Hour), job("long", 9*time.Hour), job("short", time.Minute)
		due.Promise = &allocator.Promise{Due: epoch.Add(2 * time.Hour), First: time.Minute, Slot: time.Minute, Profile: cluster.Profile{{Devices: 2}, {From: 60}}}
		run(&long, []cluster.Placement{{Node: "n", Devices: []cluster.DeviceID{"d0", "d1"}}})
		out := ask(t, p, allocator.Input{Now: epoch, Nodes: []cluster.Node{node}, Interval: time.Minute, Jobs: []allocator.JobView{due, long, short}})
		if d := out.Decisions; d[0].Workers != 2 || d[1].Workers != 0 || !strings.Contains(d[1].Reason, want) {
			t.Errorf("%d devices: want %q\n%+v", devices, want, d)
		}
	}
}

// A running job starts again at its size where another batch is worth that, but not while its
// deadline is promised: no promise is planned with such a start.
func TestAPromisedJobKeepsItsBatch(t *testing.T) {
	p, err := policy.ByName("flowtime")
	if err != nil {
		t.Fatal(err)
	}
	node := cluster.Node{ID: "n", Devices: []cluster.Device{{ID: "a", Health: cluster.Healthy}, {ID: "b", Health: cluster.Healthy}}}
	for _, promised := range []bool{false, true} {
		j := allocator.JobView{
			ID: "j", Sizes: []int{2}, Speeds: []float64{2}, Batches: []int{128}, StartCosts: []time.Duration{time.Second}, BatchSize: cluster.BatchSize{Min: 64, Max: 256},
			SubmittedAt: epoch.Add(-time.Minute), Work: allocator.Left(time.Hour),
		}
		run(&j, []cluster.Placement{{Node: "n", Devices: []cluster.DeviceID{"a", "b"}}})
		j.Staying = 1
		want := 128
		if promised {
			want = 64
			j.Promise = &allocator.Promise{Due: epoch.Add(2 * time.Hour), First: time.Minute, Slot: time.Minute, Profile: cluster.Profile{{Devices: 2}, {From: 80}}}
		}
		out := ask(t, p, allocator.Input{Now: epoch, Nodes: []cluster.Node{node}, Interval: time.Minute, Jobs: []allocator.JobView{j}})
		if d := out.Decisions[0]; d.Workers != 2 || d.BatchSize != want {
			t.Errorf("promised %t: %+v, want batch %d", promised, d, want)
		}
	}
}
