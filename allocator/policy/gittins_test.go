package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// Without jobs like it the least attained goes first, by levels; what jobs like it
// took counts the more, the more they are.
func TestExpectedWork(t *testing.T) {
	hours := func(list ...float64) (out []time.Duration) {
		for _, h := range list {
			out = append(out, time.Duration(h*float64(time.Hour)))
		}
		return out
	}
	of := func(service float64, alike ...float64) float64 {
		return expectedWork(allocator.JobView{Service: hours(service)[0], Alike: hours(alike...)}).Hours()
	}
	for service, want := range map[float64]float64{0: 1, 3.9: 1, 4: 4, 15: 4, 16: 16, 70: 64} {
		if got := of(service); got != want {
			t.Errorf("attained %g h: %g h, want %g", service, got, want)
		}
	}
	ten := slices.Repeat([]float64{8}, 10)
	if one, many := of(0, 8), of(0, ten...); one != 3 || math.Abs(many/8-1) > 0.05 {
		t.Errorf("one of 8 h tells %g, ten tell %g", one, many)
	}
	if got := of(70, 0.5, 0.5, 0.5, 0.5); math.Abs(got/0.5-1) > 0.2 {
		t.Errorf("jobs like it had half an hour left, and it counts as %g h", got)
	}
	// Of many one is about to end: what that would take counts, by how likely it is.
	if got := of(0, append([]float64{0.1}, slices.Repeat([]float64{100}, 9)...)...); got < 0.9 || got > 1.1 {
		t.Errorf("one of ten ends in 0.1 h: %g h", got)
	}
	if got := of(1e6, 1e6, 2e6); !(got > 0) {
		t.Errorf("very long jobs count as %g", got)
	}
}

// The index is the best of all moments to stop at, found by trying many.
func TestExpectedWorkIsTheLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 300 {
		j := allocator.JobView{Service: time.Duration(r.Float64() * 40 * float64(time.Hour))}
		for range 1 + r.IntN(8) {
			j.Alike = append(j.Alike, time.Duration(math.Exp(3*r.NormFloat64())*float64(time.Hour)))
		}
		slices.Sort(j.Alike)
		a := time.Hour.Seconds()
		for 4*a <= j.Service.Seconds() {
			a *= 4
		}
		least := math.Inf(1)
		for _, until := range append(slices.Clone(j.Alike), time.Millisecond) {
			d := until.Seconds()
			spent, ends := stranger*a*math.Log1p(d/a), stranger*d/(a+d)
			for _, left := range j.Alike {
				spent += min(left.Seconds(), d)
				if left <= until {
					ends++
				}
			}
			least = min(least, spent/ends)
		}
		if got := expectedWork(j).Seconds(); math.Abs(got/least-1) > 1e-6 {
			t.Fatalf("%+v: %g, want %g", j, got, least)
		}
	}
}

// Of jobs that are only expected to be equal the earlier submitted is worth more, as if it
// had less left; of those that are known to be, each is worth the same.
func TestUnknownEqualsAreServedInTheirOrder(t *testing.T) {
	worth := func(works ...allocator.Work) []float64 {
		in := allocator.Input{Now: time.Unix(1e6, 0)}
		for i, work := range works {
			in.Jobs = append(in.Jobs, allocator.JobView{
				ID: cluster.JobID(string(rune('a' + i))), Sizes: []int{1, 2}, SubmittedAt: time.Unix(int64(i), 0), Work: work,
			})
		}
		d := newDraft(in)
		d.expectWork()
		return valueWork(d, d.byWeightedWork([]int{0, 1, 2}), 4).worth
	}
	unknown, hour := allocator.Work{}, allocator.Left(time.Hour) // of an unknown job an hour is expected
	for _, works := range [][]allocator.Work{{unknown, unknown, unknown}, {unknown, hour, unknown}, {hour, unknown, hour}} {
		if w := worth(works...); !(w[0] > w[1] && w[1] > w[2]) {
			t.Errorf("%v: %v", works, w)
		}
	}
	if w := worth(hour, hour, hour); w[0] != w[1] || w[1] != w[2] {
		t.Errorf("known: %v", w)
	}
}
