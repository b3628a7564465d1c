package rendezvous_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/rendezvous"
)

func TestStopAfter(t *testing.T) {
	held := func(sdk bool, begun int64) rendezvous.Attendance {
		return rendezvous.Attendance{Held: true, SDK: sdk, Begun: begun}
	}
	silent := rendezvous.Attendance{Started: true}
	for _, c := range []struct {
		name  string
		roll  rendezvous.Roll
		step  int64
		known bool
	}{
		{"the highest begun", rendezvous.Roll{held(true, 7), held(true, 9), held(true, 8)}, 9, true},
		{"one has not answered", rendezvous.Roll{held(true, 7), silent}, 0, false},
		{"nothing begun", rendezvous.Roll{held(true, -1), held(true, -1)}, -1, true},
		{"one node still imports", rendezvous.Roll{held(true, 3), held(false, -1)}, 3, true},
		{"plain scripts", rendezvous.Roll{held(false, -1), held(false, -1)}, -1, false},
		{"a stopped member cannot answer", rendezvous.Roll{held(true, 4), {Stopped: true}}, 4, true},
		{"a lost member cannot answer", rendezvous.Roll{held(true, 4), {Lost: true}}, 4, true},
		{"what a member said before it stopped counts", rendezvous.Roll{held(true, 4), {Held: true, SDK: true, Begun: 5, Stopped: true}}, 5, true},
	} {
		if step, known := c.roll.StopAfter(); step != c.step && known || known != c.known {
			t.Errorf("%s: %d, %t, want %d, %t", c.name, step, known, c.step, c.known)
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
		t.Error("stopped, fenced, stopped: somebody is still there")
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
