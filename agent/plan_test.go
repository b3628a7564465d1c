package agent

import (
	"reflect"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// running is a generation of a job that runs on node n1, as its records and its shim show it.
func running(job cluster.JobID) (Goal, Run) {
	world := cluster.World{Job: job, Generation: 1, Members: []cluster.Member{{Node: "n1", AliveRev: 10, Devices: []cluster.DeviceID{"d"}}}}
	started := record.Versioned[record.Started]{Create: 20, Mod: 20}
	g := Goal{
		Job: job, Generation: 1, Read: true, Permit: true, Granted: true, Spec: &record.Submitted{ID: job},
		Plan: &record.Plan{World: world}, Acks: record.Acks{Started: started},
	}
	report := &run.Report{Workers: []record.Worker{{PID: 1000}}}
	return g, Run{Job: job, Generation: 1, Shim: Live, Report: report, Pushed: &run.Wish{Deadline: 700}}
}

// An agent that has just started knows its shims before it has read the records.
// Until then it moves the deadline and takes nothing back that was asked of a shim.
func TestRecordsThatWereNotReadMeanNothing(t *testing.T) {
	g, r := running("j")
	halt := &record.Halt{Save: true}
	r.Pushed = &run.Wish{Deadline: 700, Halt: halt}
	d := Desired{Node: "n1", AliveRev: 10, Deadline: 800, Strict: true}
	unread := Goal{Job: "j", Generation: 1}
	for name, goals := range map[string][]Goal{"listed, not read": {unread}, "not listed": nil} {
		d.Goals = goals
		want := []Action{Push{target: target{g.of()}, Wish: run.Wish{Deadline: 800, Halt: halt}}}
		if got := Plan(d, Observed{Runs: []Run{r}}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestTheOrderOfWhatIsKnownDoesNotMatter(t *testing.T) {
	d := Desired{Node: "n1", AliveRev: 10, Deadline: 800}
	o := Observed{}
	for _, job := range []cluster.JobID{"a", "b", "c"} {
		g, r := running(job)
		d.Goals, o.Runs = append(d.Goals, g), append(o.Runs, r)
	}
	want := Plan(d, o)
	if len(want) != 3 {
		t.Fatalf("%v", want)
	}
	slices.Reverse(d.Goals)
	if got := Plan(d, o); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	slices.Reverse(o.Runs)
	if got := Plan(d, o); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
