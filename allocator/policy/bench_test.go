package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// large is a question of many jobs on nodes of eight devices, with work as in published traces.
func large(jobs, devices int) allocator.Input {
	r := rand.New(rand.NewPCG(uint64(jobs), 12))
	in := allocator.Input{Now: epoch.Add(24 * time.Hour), Interval: 5 * time.Minute}
	for i := range devices / 8 {
		n := cluster.Node{ID: cluster.NodeID(fmt.Sprintf("n%05d", i))}
		for k := range 8 {
			n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("d%d-%d", i, k)), Health: cluster.Healthy})
		}
		in.Nodes = append(in.Nodes, n)
	}
	for i := range jobs {
		in.Jobs = append(in.Jobs, allocator.JobView{
			ID: cluster.JobID(fmt.Sprintf("j%05d", i)), Sizes: []int{1, 2, 4, 8, 16}, BatchSize: cluster.BatchSize{Min: 1024, Max: 1024},
			SubmittedAt: epoch.Add(time.Duration(i) * time.Second), Work: workOf(r),
		})
	}
	return in
}

func workOf(r *rand.Rand) allocator.Work {
	return allocator.Left(time.Duration(math.Max(60, 5400*math.Exp(1.5*r.NormFloat64())) * float64(time.Second)))
}

// BenchmarkDecision decides interval after interval, with its check: what runs has done
// its part by the next, and in place of what has ended there are other jobs.
// hu-forgetful is hu without what it remembers.
func BenchmarkDecision(b *testing.B) {
	for _, size := range [][2]int{{1000, 3000}, {10000, 16384}} {
		for _, name := range []string{"hu", "hu-forgetful", "flowtime", "greedy"} {
			b.Run(fmt.Sprintf("%d on %d/%s", size[0], size[1], name), func(b *testing.B) {
				p, err := policy.ByName(name)
				forgetful := err != nil
				if forgetful {
					p, err = policy.ByName("hu")
				}
				if err != nil {
					b.Fatal(err)
				}
				in := large(size[0], size[1])
				fresh := rand.New(rand.NewPCG(1, 1))
				decide := func() allocator.Output {
					out, err := allocator.Run(p, in)
					if err != nil {
						b.Fatal(err)
					}
					return out
				}
				pass := func(out allocator.Output) {
					if in.Memory = out.Memory; forgetful {
						in.Memory = nil
					}
					for i, d := range out.Decisions {
						j := &in.Jobs[i]
						j.Work.Left -= time.Duration(float64(in.Interval) * goodput.Default(d.Workers))
						if j.Work.Left <= 0 {
							j.Work = workOf(fresh)
						}
					}
				}
				pass(decide())
				for b.Loop() {
					out := decide()
					b.StopTimer()
					pass(out)
					b.StartTimer()
				}
			})
		}
	}
}
