package place_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// BenchmarkPlace places 10,000 jobs on 1,000 nodes of 8 devices, of which a tenth are new: with and
// without a topology, and with a job for which others have to move.
func BenchmarkPlace(b *testing.B) {
	for _, topology := range []string{"flat", "groups"} {
		r := rand.New(rand.NewPCG(1, 2))
		t := tree{1000, 1, 1, 8}
		if topology == "groups" {
			t = tree{1000, 2, 2, 2}
		}
		ns := t.build()
		for i := range ns {
			ns[i].ID = cluster.NodeID(fmt.Sprintf("n%04d", i))
		}
		var want []place.Count
		used := 0
		for i := range 10_000 {
			k := 0
			if used < 7000 {
				k = 1 << r.IntN(3)
			}
			used += k
			want = append(want, place.Count{Job: cluster.JobID(fmt.Sprint("j", i)), Workers: k, MoveCost: float64(30 * k), SpanCost: float64(100 * k)})
		}
		held := place.Place(ns, nil, want).Allocations
		held = held[:len(held)*9/10]
		r.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		b.Run(topology, func(b *testing.B) {
			for b.Loop() {
				place.Place(ns, held, want)
			}
		})
		q := place.Question{Nodes: ns, Current: held, Want: want}
		for i := range q.Want {
			if q.Want[i].Workers == 0 && i%100 == 0 {
				q.Want[i].Workers = 8
			}
		}
		placed := place.Place(ns, held, want)
		b.Run(topology+"/repair", func(b *testing.B) {
			for b.Loop() {
				place.Repair(q, placed, 8)
			}
		})
	}
}
