package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// firstStart plays a cluster of four devices that always has more small jobs than devices, and
// tells when a job that needs all four starts; false = not within 30 hours.
func firstStart(t *testing.T, p allocator.Policy, models [2]string) (time.Duration, bool) {
	t.Helper()
	const step = 30 * time.Minute
	in := allocator.Input{Nodes: []cluster.Node{node("n1", models[0], 2), node("n2", models[1], 2)}, Interval: step}
	job := func(id string, size int, at, work time.Duration) {
		in.Jobs = append(in.Jobs, allocator.JobView{
			ID: cluster.JobID(id), Sizes: []int{size}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch.Add(at),
			Work: allocator.Left(work), Mixed: size == 4,
		})
	}
	for now := time.Duration(0); now < 30*time.Hour; now += step {
		if now == 2*step {
			job("wide", 4, now, 20*time.Hour)
		}
		job(fmt.Sprintf("small%03d", now/step), 1, now, 3*time.Hour)
		for _, between := range []bool{true, false} {
			in.Now, in.Between = epoch.Add(now), between
			in = adopt(t, in, ask(t, p, in))
		}
		open := in.Jobs[:0]
		for _, j := range in.Jobs {
			if j.Workers > 0 {
				if j.ID == "wide" {
					return now, true
				}
				j.Work.Left -= step
				j.Trained += step
				j.Service += step
			}
			if j.Work.Left > 0 {
				open = append(open, j)
			}
		}
		in.Jobs = open
	}
	return 0, false
}

// A job that needs more devices than any model has starts as soon as it would where all
// devices are of one model: its turn comes by the policy's own rules.
func TestAWideJobWaitsNoLongerThanOthers(t *testing.T) {
	bounded := 0
	for _, name := range policy.Names() {
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		want, starts := firstStart(t, p, [2]string{"v100", "v100"})
		got, does := firstStart(t, p, [2]string{"v100", "k80"})
		if got != want || does != starts {
			t.Errorf("%s: starts after %v (%t), on one model after %v (%t)", name, got, does, want, starts)
		}
		if does {
			bounded++
		}
		if name == policy.Default && !does {
			t.Errorf("%s: it never starts", name)
		}
	}
	if bounded < 5 {
		t.Errorf("under %d policies only it starts at all", bounded)
	}
}
