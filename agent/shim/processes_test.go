package shim

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
)

// A job that forks without end runs into its own limit, and another beside it does
// not notice; where the node cannot limit it, it says so and the job runs.
func TestAForkBombIsBounded(t *testing.T) {
	t.Parallel()
	bound := canBind(t)
	for _, kind := range append(kinds(), run.Weak) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != run.Weak {
				needsKind(t, kind)
			}
			// A shell that cannot fork ends; what it has started is counted until then.
			f := newFixture(t, 1, `(i=0; while [ $i -lt 300 ]; do sleep 1000 & echo started >> started; i=$((i+1)); done) 2> refused
echo > over
exec sleep 1000`)
			f.order.Containment, f.order.Processes = kind, 60
			r := f.start().started()
			f.awaitFile("over")
			n := strings.Count(f.awaitFile("started"), "started")
			if bound && (r.Processes != 60 || n >= 60) {
				t.Errorf("limited to %d processes, it started %d", r.Processes, n)
			}
			if !bound && r.Processes != 0 {
				t.Errorf("a limit of %d is reported that this machine cannot keep", r.Processes)
			}
			f.push(run.Wish{Kill: "test"})
			f.stopped()
			if left := f.limitsLeft(); len(left) > 0 {
				t.Errorf("groups are left: %v", left)
			}
			f.retire()
		})
	}
}
