package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

func TestSizesAreThoseTheJobMayHaveAndTheClusterHas(t *testing.T) {
	t.Parallel()
	powers := cluster.Spec{MinWorkers: 1, MaxWorkers: 6, BatchSize: cluster.BatchSize{Min: 24, Max: 24}}
	listed := cluster.Spec{MinWorkers: 3, MaxWorkers: 12, Sizes: []int{3, 6, 12}, BatchSize: cluster.BatchSize{Min: 24, Max: 24}}
	for _, c := range []struct {
		what  string
		spec  cluster.Spec
		asked []int
		idle  int
		want  []int
		says  string
	}{
		{"all that fit", powers, nil, 6, []int{1, 2, 4}, ""},
		{"what is idle", powers, nil, 3, []int{1, 2}, ""},
		{"its own numbers", listed, nil, 8, []int{3, 6}, ""},
		{"nothing is idle", listed, nil, 2, nil, "too few devices are idle"},
		{"those asked for, in order, once", powers, []int{8, 1, 8}, 8, []int{1, 8}, ""},
		{"one that the batch does not share", powers, []int{1, 16}, 32, nil, "--sizes 16: the job can have 1, 2, 4, 8 workers"},
		{"one that it does not list", listed, []int{4}, 32, nil, "--sizes 4"},
		{"one of nothing", powers, []int{0, 1}, 32, nil, "--sizes 0"},
		{"more than is idle", powers, []int{1, 4}, 3, nil, "--sizes 4: 3 devices are idle"},
		{"far too many", powers, slices.Collect(func(yield func(int) bool) {
			for i := range MaxSizes + 1 {
				if !yield(i + 1) {
					return
				}
			}
		}), 99, nil, "33 are listed, at most 32"},
	} {
		got, err := Sizes(c.spec, c.asked, c.idle)
		switch {
		case c.says == "" && (err != nil || !slices.Equal(got, c.want)):
			t.Errorf("%s: %v, %v, want %v", c.what, got, err, c.want)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, %v, want an error with %q", c.what, got, err, c.says)
		}
	}
}

func TestIdleDevicesAreThoseThatTheJobCouldHave(t *testing.T) {
	t.Parallel()
	healthy := func(jobs ...string) (list []api.DeviceStatus) {
		for _, j := range jobs {
			list = append(list, api.DeviceStatus{Model: "H100", Health: "healthy", Job: j})
		}
		return list
	}
	nodes := []api.NodeStatus{
		{ID: "n1", Alive: true, Devices: healthy("", "train-aaaaaa", "")},
		{ID: "n2", Alive: true, Devices: append(healthy(""), api.DeviceStatus{Model: "H100", Health: "unhealthy"})},
		{ID: "n3", Devices: healthy("")},
		{ID: "n4", Alive: true, Cordon: "new fans", Devices: healthy("")},
		{ID: "n5", Alive: true, Devices: []api.DeviceStatus{{Model: "A100", Health: "healthy"}}},
	}
	for _, c := range []struct {
		where cluster.Where
		want  int
	}{{cluster.Where{}, 4}, {cluster.Where{DeviceModel: "h100"}, 3}, {cluster.Where{Not: []cluster.NodeID{"n1"}}, 2}, {cluster.Where{Nodes: []cluster.NodeID{"n3"}}, 0}} {
		if got := Idle(nodes, c.where); got != c.want {
			t.Errorf("%+v: %d, want %d", c.where, got, c.want)
		}
	}
}
