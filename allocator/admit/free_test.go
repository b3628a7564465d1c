package admit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A profile is taken whole, as slot by slot, or what is free stays as it was.
func TestTakeWholeOrNothing(t *testing.T) {
	const slots, devices = 12, 4
	r := rand.New(rand.NewPCG(1, 2))
	f, left := free{{0, devices}}, [slots]int{}
	for i := range left {
		left[i] = devices
	}
	whole, refused := 0, 0
	for range 2000 {
		p := Profile{}
		for at := 0; at < slots; at += 1 + r.IntN(5) {
			if n := r.IntN(3); len(p) == 0 || p[len(p)-1].Devices != n {
				p = append(p, Run{From: at, Devices: n})
			}
		}
		p = append(p, Run{From: slots})
		want, fits := left, true
		for s := p[0].From; s < slots; s++ {
			want[s] -= p.At(s)
			fits = fits && want[s] >= 0
		}
		before := slices.Clone(f)
		if got := f.takeWhole(p); got != fits {
			t.Fatalf("%v in %v: %v", p, before, got)
		}
		if refused++; fits {
			left = want
			refused, whole = refused-1, whole+1
		}
		for s, n := range left {
			if f[f.find(s)].devices != n {
				t.Fatalf("%v in %v leaves %v, want %v", p, before, f, left)
			}
		}
		if i := slices.IndexFunc(f[1:], func(s step) bool { return f[f.find(s.at-1)].devices == s.devices }); i >= 0 {
			t.Fatalf("%v in %v leaves %v, two steps of which are one", p, before, f)
		}
		if whole%3 == 0 { // room for others again
			f, left = free{{0, devices}}, [slots]int{}
			for i := range left {
				left[i] = devices
			}
		}
	}
	if whole < 100 || refused < 100 {
		t.Errorf("%d taken, %d refused", whole, refused)
	}
}
