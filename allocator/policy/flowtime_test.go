package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// What has waited for a day goes first, the earlier submitted before, on half of the devices; on the others the short
// ones go on. The first has what it needs, be it more than half.
func TestOverdueJobsHaveHalf(t *testing.T) {
	p, err := policy.ByName(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	now := epoch.Add(48 * time.Hour)
	job := func(n, least int, waited, left time.Duration) allocator.JobView {
		return allocator.JobView{
			ID: cluster.JobID(fmt.Sprint("j", n)), Sizes: []int{least}, BatchSize: cluster.BatchSize{Min: 96, Max: 96}, SubmittedAt: now.Add(-waited), Work: allocator.Left(left),
		}
	}
	for _, c := range []struct {
		name  string
		first int // the smallest size of the first
		want  []int
	}{
		{"of one device each", 1, []int{1, 1, 0, 1, 1, 0}},
		{"of all devices", 4, []int{4, 0, 0, 0, 0, 0}},
		{"of three", 3, []int{3, 0, 0, 1, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := allocator.Input{Now: now, Nodes: []cluster.Node{node("n1", "", 4)}, Interval: 5 * time.Minute}
			for n, waited := range []time.Duration{40 * time.Hour, 35 * time.Hour, 30 * time.Hour, 3 * time.Hour, 2 * time.Hour, time.Hour} {
				least, left := 1, time.Hour
				if n == 0 {
					least = c.first
				}
				if n < 3 {
					left = 100 * time.Hour
				}
				in.Jobs = append(in.Jobs, job(n, least, waited, left))
			}
			var got []int
			for _, d := range ask(t, p, in).Decisions {
				got = append(got, d.Workers)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
