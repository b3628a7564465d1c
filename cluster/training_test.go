package cluster

import (
	"strings"
	"testing"
)

func TestMicroBatchFollowsFromTheLargestWorld(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		want int
	}{
		{"as given", Spec{MinWorkers: 1, MaxWorkers: 8, BatchSize: BatchSize{Min: 256, Max: 256}, Training: Training{MicroBatch: 4}}, 4},
		{"a share of the largest world", Spec{MinWorkers: 1, MaxWorkers: 8, BatchSize: BatchSize{Min: 256, Max: 256}}, 32},
		{"the largest that is allowed", Spec{MinWorkers: 1, MaxWorkers: 12, BatchSize: BatchSize{Min: 256, Max: 256}}, 32},
		{"listed sizes, a batch that ranges", Spec{MinWorkers: 3, MaxWorkers: 12, Sizes: []int{3, 6, 12}, BatchSize: BatchSize{Min: 256, Max: 300}}, 22},
		{"a batch that does not divide by more", Spec{MinWorkers: 1, MaxWorkers: 8, BatchSize: BatchSize{Min: 6, Max: 6}}, 3},
		{"no world at all", Spec{MinWorkers: 8, MaxWorkers: 4, BatchSize: BatchSize{Min: 6, Max: 6}}, 6},
		{"nothing", Spec{}, 1},
	} {
		if got := c.spec.MicroBatch(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestValidateTraining(t *testing.T) {
	for _, c := range []struct {
		name   string
		given  Training
		change func(*Spec)
		want   string // empty = it is taken
	}{
		{"nothing", Training{}, nil, ""},
		{"all", Training{MicroBatch: 16, LogicalWorkers: 8}, nil, ""},
		{"a rule", Training{LRRule: "sqrt", LRWarmup: 100}, func(s *Spec) { s.BatchSize.Max = 1024 }, ""},
		{"no rule by name", Training{LRRule: "none"}, nil, ""},
		{
			"a rule for one batch",
			Training{LRRule: "linear"},
			nil,
			"lr rule linear: batch size 256 does not change, and so the learning rate does not either; let the batch range, as in 256:1024, or leave lr rule out",
		},
		{"a micro-batch above the share of the largest world", Training{MicroBatch: 64}, nil, ""},
		{"negative micro-batch", Training{MicroBatch: -1}, nil, "micro batch -1: use a number of samples from 1, or leave it out"},
		{"above the batch", Training{MicroBatch: 512}, nil, "micro batch 512 is above batch size 256: no device ever takes so many; use 256 or less"},
		{
			"above the batch of worlds of two or more",
			Training{MicroBatch: 512},
			func(s *Spec) { s.MinWorkers = 2 },
			"micro batch 512 is above batch size 256: no device ever takes so many; use 128 or less",
		},
		{
			"does not divide",
			Training{MicroBatch: 48},
			nil,
			"micro batch 48 does not divide 256, a worker's share of batch size 256 in a world of 1: use 32, or leave it out",
		},
		{
			"divides some shares only",
			Training{MicroBatch: 86},
			func(s *Spec) { s.Sizes, s.MaxWorkers, s.BatchSize = []int{1, 3, 6}, 6, BatchSize{Min: 256, Max: 260} },
			"micro batch 86 does not divide 256, a worker's share of batch size 256 in a world of 1: use 1, or leave it out",
		},
		{"huge", Training{MicroBatch: 1<<40 - 1}, func(s *Spec) { s.BatchSize = BatchSize{Min: 1 << 40, Max: 1 << 40} }, "use 1, or leave it out"},
		{"no power of two", Training{LogicalWorkers: 6}, nil, "logical workers 6: use a power of two, such as 8, or leave it out"},
		{"negative", Training{LogicalWorkers: -8}, nil, "logical workers -8: use a power of two"},
		{"fewer than workers", Training{LogicalWorkers: 4}, nil, "logical workers 4: the job may have 8 workers, each of which needs one: use 8 or more, or lower max workers"},
		{
			"worlds of three",
			Training{LogicalWorkers: 8},
			func(s *Spec) { s.Sizes, s.BatchSize = []int{1, 3}, BatchSize{Min: 48, Max: 48} },
			"logical workers 8: worlds of 3 workers cannot share them equally: list powers of two only in world sizes",
		},
		{
			"a batch that ranges",
			Training{LogicalWorkers: 8},
			func(s *Spec) { s.BatchSize.Max = 512 },
			"give one batch size instead of 256:512",
		},
		{
			"a batch that they cannot share",
			Training{LogicalWorkers: 512},
			nil,
			"logical workers 512: they cannot share batch size 256 equally: use a multiple of 512 samples",
		},
		{"unknown rule", Training{LRRule: "cube"}, nil, `lr rule "cube": use linear, sqrt, none`},
		{"a warm-up of nothing", Training{LRWarmup: 5}, nil, "lr warmup 5: without lr rule linear or sqrt"},
		{"a warm-up of none", Training{LRRule: "none", LRWarmup: 5}, nil, "lr warmup 5: without lr rule"},
		{"negative warm-up", Training{LRRule: "sqrt", LRWarmup: -5}, nil, "lr warmup -5: use a number of steps from 1"},
		{"a warm-up for ever", Training{LRRule: "sqrt", LRWarmup: MaxSteps + 1}, nil, "lr warmup 9007199254740993: use a number of steps from 1 to 9007199254740992"},
	} {
		s := good()
		s.MinWorkers, s.MaxWorkers, s.BatchSize, s.Training = 1, 8, BatchSize{Min: 256, Max: 256}, c.given
		if c.change != nil {
			c.change(&s)
		}
		switch err := s.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want …%s…", c.name, err, c.want)
		}
	}
}
