package e2e

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// Two nodes of four devices have two free each: a job of four fits on neither. One small job
// moves, so that it does, and nothing else is halted.
func TestAFragmentedNodeIsRepairedByOneMove(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 4, policy: "share", migrations: 1})
	small := map[string]cluster.JobID{}
	for _, name := range []string{"a", "f", "b", "g"} { // two a node, in this order
		small[name] = f.submit(f.sdkJob(name, 2, 2, 1<<30, 0.1))
		f.awaitStep(name, 3, 2)
		f.awaitRunning(small[name], 2, 0)
	}
	for _, name := range []string{"f", "g"} {
		f.stop(small[name])
		f.awaitPhase(small[name], cluster.Stopped)
	}
	large := f.submit(f.sdkJob("c", 4, 4, 1<<30, 0.1))
	f.awaitRunning(large, 4, 0)
	f.awaitStep("c", 3, 4)

	c := f.show(large)
	if len(c.Members) != 1 || len(c.Members[0].Devices) != 4 || c.Generation != 1 {
		t.Errorf("the job of four is in generation %d on %+v, want its first one on one node", c.Generation, c.Members)
	}
	moved := 0
	for _, name := range []string{"a", "b"} {
		generation := f.awaitRunning(small[name], 2, 0)
		s := f.show(small[name])
		if generation == 1 {
			continue
		}
		moved++
		last := s.Rescales[len(s.Rescales)-1]
		if want := "so that " + string(large) + " fits on one node"; generation != 2 || last.From != 2 || last.To != 2 || !strings.Contains(last.Why, want) || last.LostSteps != 0 {
			t.Errorf("%s is in generation %d: %+v, want a move without loss, %q", name, generation, last, want)
		}
		events, errs, code := f.bellowsOn(1, "events", string(small[name]), "-o", "json")
		if code != 0 || !strings.Contains(events, "from n") || !strings.Contains(events, string(large)) {
			t.Errorf("events exited %d: %s%s, want where it moves and for whom", code, events, errs)
		}
		if s.Members[0].Node == c.Members[0].Node {
			t.Errorf("%s has moved to %s, where the job of four is", name, c.Members[0].Node)
		}
	}
	if moved != 1 {
		t.Errorf("%d jobs have moved, want one", moved)
	}
}
