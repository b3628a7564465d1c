package cluster

import (
	"math"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	if got := (Limits{MemoryBytes: 1 << 30, CPUs: 0.5}).Of(4); got != (Limits{MemoryBytes: 4 << 30, CPUs: 2}) {
		t.Errorf("four devices: %+v", got)
	}
	for _, c := range []struct {
		limits Limits
		want   string // "" = valid
	}{
		{Limits{}, ""},
		{Limits{MemoryBytes: MinWorkerMemory, CPUs: MinWorkerCPUs}, ""},
		{Limits{MemoryBytes: 1 << 20}, "memory per worker 1048576: use 16777216 bytes (16 MiB) or more"},
		{Limits{MemoryBytes: math.MaxUint64}, "memory per worker 18446744073709551615: use 1125899906842624 bytes (1 PiB) or less"},
		{Limits{CPUs: -1}, "cpus per worker -1: use 0.01 to 65536"},
		{Limits{CPUs: math.NaN()}, "cpus per worker NaN"},
		{Limits{CPUs: math.Inf(1)}, "cpus per worker +Inf"},
	} {
		s := good()
		s.PerWorker = c.limits
		if err := s.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.limits, err)
		}
	}
}
