package rendezvous_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/rendezvous"
)

func TestAnswersToAHalt(t *testing.T) {
	held := func(sdk bool, begun int64) rendezvous.Attendance {
		return rendezvous.Attendance{Held: true, SDK: sdk, Begun: begun}
	}
	silent := rendezvous.Attendance{Started: true}
	for _, c := range []struct {
		name  string
		roll  rendezvous.Roll
		begun int64
		sdk   bool
		known bool
	}{
		{"the highest begun", rendezvous.Roll{held(true, 7), held(true, 9), held(true, 8)}, 9, true, true},
		{"one has not answered", rendezvous.Roll{held(true, 7), silent}, -1, false, false},
		{"nothing begun", rendezvous.Roll{held(true, -1), held(true, -1)}, -1, true, true},
		{"one node still imports", rendezvous.Roll{held(true, 3), held(false, -1)}, 3, true, true},
		{"plain scripts", rendezvous.Roll{held(false, -1), held(false, -1)}, -1, false, true},
		{"no member can answer", rendezvous.Roll{{Stopped: true}, {Lost: true}}, -1, false, false},
		{"a stopped member cannot answer", rendezvous.Roll{held(true, 4), {Stopped: true}}, 4, true, true},
		{"a lost member cannot answer", rendezvous.Roll{held(true, 4), {Lost: true}}, 4, true, true},
		{"what a member said before it stopped counts", rendezvous.Roll{held(true, 4), {Held: true, SDK: true, Begun: 5, Stopped: true}}, 5, true, true},
	} {
		if begun, sdk, known := c.roll.Answers(); begun != c.begun || sdk != c.sdk || known != c.known {
			t.Errorf("%s: %d, %t, %t, want %d, %t, %t", c.name, begun, sdk, known, c.begun, c.sdk, c.known)
		}
	}
}

func TestRollCalls(t *testing.T) {
	roll := rendezvous.Roll{
		{Node: "a", Started: true, Stopped: true, Finished: true},
		{Node: "b", Started: true, Lost: true},
		{Node: "c"},
	}
	if roll.AllStarted() || roll.AllGone() || roll.AllFinished() {
		t.Errorf("%+v counts as whole", roll)
	}
	planned := time.Unix(1000, 0)
	if late := roll.Overdue(planned, planned.Add(59*time.Second), time.Minute); late != nil {
		t.Errorf("%v overdue before the deadline", late)
	}
	if late := roll.Overdue(planned, planned.Add(time.Minute), time.Minute); !slices.Equal(late, []cluster.NodeID{"c"}) {
		t.Errorf("overdue: %v, want c", late)
	}
	if p := roll.Present(); !slices.Equal(p, []cluster.NodeID{"b", "c"}) {
		t.Errorf("present: %v, want b c", p)
	}
	if l := roll.Lost(); !slices.Equal(l, []cluster.NodeID{"b"}) {
		t.Errorf("lost: %v, want b", l)
	}
	roll[1].Fenced, roll[2].Stopped, roll[2].Finished = true, true, true
	if !roll.AllGone() {
		t.Error("stopped, fenced, stopped: a member is still there")
	}
	if roll.AllFinished() {
		t.Error("a fenced member counts as finished")
	}
	if (rendezvous.Roll{}).AllGone() || (rendezvous.Roll{}).AllFinished() {
		t.Error("a world without members is over before it began")
	}
	if !roll.AllStarted() {
		t.Error("a member that finished does not count as started")
	}
}
