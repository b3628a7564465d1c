package admit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// tiny is a set of three jobs on four devices and up to four slots.
func tiny(r *rand.Rand, counts []int, exponent float64) Problem {
	p := Problem{Devices: 4, First: 1, Slot: 1}
	for i := range 3 {
		j := Job{ID: cluster.JobID(fmt.Sprint(i)), Counts: counts, Deadline: float64(1 + r.IntN(4))}
		for _, n := range counts {
			j.Speeds = append(j.Speeds, power(n, exponent))
		}
		j.Work = 0.1 + r.Float64()*0.75*j.Deadline*j.Speeds[len(j.Speeds)-1]
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// feasible goes through all counts of all jobs in all slots: slot by slot, the
// sets of works that can be left. It shares nothing with the package but Problem.
func feasible(p *Problem) bool {
	type state [3]float64
	var end float64
	states := map[state]bool{{p.Jobs[0].Work, p.Jobs[1].Work, p.Jobs[2].Work}: true}
	for _, j := range p.Jobs {
		end = max(end, j.Deadline)
	}
	speed := func(i, n int) float64 {
		for k, c := range p.Jobs[i].Counts {
			if c == n {
				return p.Jobs[i].Speeds[k]
			}
		}
		return -1
	}
	for t := 0.0; t < end; t++ {
		next := map[state]bool{}
		for s := range states {
			for choice := range 5 * 5 * 5 {
				n := [3]int{choice % 5, choice / 5 % 5, choice / 25}
				if n[0]+n[1]+n[2] > p.Devices {
					continue
				}
				left, ok := s, true
				for i := range left {
					switch v := speed(i, n[i]); {
					case n[i] == 0:
					case v < 0 || t >= p.Jobs[i].Deadline || left[i] == 0:
						ok = false
					default:
						left[i] = max(0, left[i]-v)
						if left[i] < 1e-9 {
							left[i] = 0
						}
					}
					ok = ok && (left[i] == 0 || p.Jobs[i].Deadline > t+1)
				}
				if ok {
					next[left] = true
				}
			}
		}
		states = next
	}
	return len(states) > 0
}

// TestTinySets compares what is kept with all that could be: nothing more, and
// nearly as much. The shares are of sets in which all three deadlines can be kept.
func TestTinySets(t *testing.T) {
	const sets = 3000
	for _, c := range []struct {
		name     string
		counts   []int
		exponent float64
	}{
		{"linear, any", []int{1, 2, 3, 4}, 1},
		{"concave, any", []int{1, 2, 3, 4}, 0.7},
		{"linear, powers of two", []int{1, 2, 4}, 1},
		{"concave, powers of two", []int{1, 2, 4}, 0.7},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			could, filled, kept := 0, 0, 0
			for range sets {
				p := tiny(r, c.counts, c.exponent)
				ok := feasible(&p)
				for _, budget := range []int{0, Budget} {
					pl, err := newPlan(p, budget)
					if err != nil {
						t.Fatal(err)
					}
					all := len(pl.jobs) == 3
					if all && !ok {
						t.Fatalf("kept all of a set that cannot be: %+v", p)
					}
					if err := Check(&p, pl.beside(p)); err != nil {
						t.Fatalf("%+v: %v", p, err)
					}
					switch {
					case all && budget == 0:
						filled++
					case all:
						kept++
					}
				}
				if ok {
					could++
				}
			}
			t.Logf("%d of %d sets can be kept whole; filling alone keeps %.1f %% of them, with the search %.1f %%", could, sets,
				100*float64(filled)/float64(could), 100*float64(kept)/float64(could))
			if float64(kept) < 0.97*float64(could) {
				t.Errorf("kept %d of %d", kept, could)
			}
			if filled >= kept {
				t.Error("the search found nothing that filling did not")
			}
		})
	}
}
