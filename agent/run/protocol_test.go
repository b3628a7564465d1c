package run

import (
	"testing"

	"github.com/bellows-ml/bellows/agent/fence"
)

// A node whose lease was lost is back with another one at once. Its old workers
// have the time of the old lease, and no more.
func TestOnlyTheLeaseOfItsOwnLifeProlongsARun(t *testing.T) {
	for _, c := range []struct {
		deadline, life int64
		want           bool
	}{{70, 10, true}, {70, 20, false}, {0, 10, false}, {fence.Never, 10, true}, {fence.Never, 20, true}} {
		if got := (Wish{Deadline: c.deadline}).Prolongs(10, c.life); got != c.want {
			t.Errorf("deadline %d of life %d: %v", c.deadline, c.life, got)
		}
	}
}
