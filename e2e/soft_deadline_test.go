package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A node is lost, and its job cannot be kept beside what others were promised: the deadline moves into
// the job's grace, no further than it has to. Another is lost with a job that has no grace: its owner is told at
// once that the deadline cannot be kept, and what would save it; which it does. The third is kept throughout.
func TestASoftDeadlineMoves(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 3, devices: 1, policy: "flowtime", interval: 2 * time.Second})
	follow := startSession(t, f.command(1, "events", "-f", "-o", "json"))
	due := func(name, grace string) (cluster.JobID, cluster.NodeID) {
		j := f.sdkJob(name, 1, 1, 15000, 0.1) // 25 minutes, which is measured meanwhile: two do not fit on one device
		j["deadline"], j["eta"] = "+40m", "30m"
		if grace != "" {
			j["grace"] = grace
		}
		id, refused := f.submitDue(j)
		if refused != "" {
			t.Fatal(refused)
		}
		f.awaitPhase(id, cluster.Running)
		m := f.mirror().Job(id)
		return id, m.Generation(m.State.Value.Generation).Plan.Value.World.Members[0].Node
	}
	kept, there := due("kept", "")
	if there != "n1" { // whose agent is asked
		t.Fatalf("the first job is on %s", there)
	}
	soft, first := due("soft", "2h")
	firm, second := due("firm", "")

	f.killNode(first)
	f.awaitEvent(follow, "that the soft deadline moves", func(e api.Event) bool {
		return e.Kind == "deadline-late" && e.Job == string(soft) && strings.Contains(e.Why, "cannot be kept with 2 usable devices beside what others were promised: promised by")
	})
	f.killNode(second)
	f.awaitShown(firm, "what would save it", func(s api.JobStatus) bool {
		return s.Answer != nil && strings.Contains(s.Answer.Lost, "nodes that come back, or jobs that are stopped, would save it")
	})
	f.startAgent(indexOf(second))
	f.awaitShown(firm, "that it can be kept again", func(s api.JobStatus) bool { return s.Answer != nil && s.Answer.Lost == "" })
	s := f.show(soft)
	if s.Answer == nil || s.Answer.By == nil || !s.Answer.By.After(*s.Deadline) || s.Answer.By.After(s.Deadline.Add(2*time.Hour)) {
		t.Errorf("soft: %+v", s.Answer)
	}
	if s := f.show(kept); s.Answer.By != nil || s.Answer.Lost != "" {
		t.Errorf("kept: %+v", s.Answer)
	}
	f.await("the others at work, and the soft one to wait for its slot", func(m *record.Mirror) bool {
		return m.Job(kept).State.Value.Phase == cluster.Running && m.Job(firm).State.Value.Phase == cluster.Running && m.Job(soft).State.Value.Phase == cluster.Queued
	})
}
