package render

import (
	"testing"

	"github.com/bellows-ml/bellows/api"
)

// A job that has ended for want of memory runs with no more workers.
func TestMemoryText(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]api.JobStatus{
		"": {},
		"too little with 1 worker, so it runs with more: a smaller --micro-batch would let it run with fewer":           {OutOfMemory: 1},
		"too little with 2 workers or fewer, so it runs with more: a smaller --micro-batch would let it run with fewer": {OutOfMemory: 2},
		"too little with 2 workers or fewer": {OutOfMemory: 2, Ended: true},
	} {
		if got := memoryText(j); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
