package render

import (
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// The batch is told with what it was chosen by.
func TestBatchText(t *testing.T) {
	ranging := cluster.BatchSize{Min: 64, Max: 512}
	for _, c := range []struct {
		want string
		job  api.JobStatus
	}{
		{"batch of 64 samples", api.JobStatus{Spec: cluster.Spec{BatchSize: cluster.BatchSize{Min: 64, Max: 64}}}},
		{"batch of 64 to 512 samples; most policies leave it the smallest while no gradient noise is reported", api.JobStatus{Spec: cluster.Spec{BatchSize: ranging}}},
		{"batch of 64 to 512 samples, now 256", api.JobStatus{Spec: cluster.Spec{BatchSize: ranging}, JobSpeed: api.JobSpeed{Batch: 256}}},
		{
			"batch of 64 to 512 samples, now 256; gradient noise scale 6.4e+03 samples, as the last job of its kind had at first",
			api.JobStatus{Spec: cluster.Spec{BatchSize: ranging}, JobSpeed: api.JobSpeed{Batch: 256, KindNoiseScale: new(6400.0)}},
		},
		{
			"batch of 64 to 512 samples, now 256; gradient noise scale 500 samples",
			api.JobStatus{Spec: cluster.Spec{BatchSize: ranging}, JobSpeed: api.JobSpeed{Batch: 256, NoiseScale: new(500.0)}},
		},
	} {
		if got := batchText(c.job); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestLossText(t *testing.T) {
	for want, l := range map[string]*api.LossTrend{
		"": nil,
		"falls by 1.2 % of all of its fall so far in 100 steps": {Fall: 0.0123},
		"its loss rises: look at its data":                      {Flat: "its loss rises", Remedy: "look at its data"},
		"its loss rises":                                        {Flat: "its loss rises"}, // by an agent of another version
	} {
		if got := lossText(l); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
