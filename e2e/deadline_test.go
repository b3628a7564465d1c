package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// submitDue submits a job with a deadline and returns its identifier, or what was said
// where it was refused.
func (f *fleet) submitDue(j job, flags ...string) (id cluster.JobID, refused string) {
	f.t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		f.t.Fatal(err)
	}
	file := filepath.Join(f.dir, "due.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	out, errs, status := f.patiently(append([]string{"submit", "-f", file}, flags...)...)
	switch {
	case status == api.RefusedStatus && out == "":
		return "", errs
	case status == 1 && strings.Contains(errs, "is in use by job"): // the one that was not answered in time
		id = cluster.JobID(f.show(cluster.JobID(fmt.Sprint(j["name"]))).ID)
	case status == 0:
		id = cluster.JobID(strings.TrimSpace(out))
	default:
		f.t.Fatalf("submit exited %d: %s%s", status, out, errs)
	}
	f.awaitShown(id, "its promise", func(s api.JobStatus) bool { return s.Answer != nil && s.Answer.Promised && s.Answer.Ends != nil })
	return id, ""
}

// Under the default policy a promised deadline is kept while other jobs want the only device: the one that has it
// makes room, and one that comes later is refused, with an offer that is kept as well. What
// is said of the jobs' length is far more than they take, so that a slow machine keeps to it.
func TestPromisedDeadlines(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1, policy: "flowtime", interval: 2 * time.Second})
	long := f.submit(f.sdkJob("long", 1, 1, 1<<30, 0.1))
	f.awaitPhase(long, cluster.Running)
	f.awaitStep("long", 0, 1)

	due := f.sdkJob("due", 1, 1, 20, 0.1)
	due["deadline"], due["eta"] = "+12m", "3m"
	first, refused := f.submitDue(due)
	if refused != "" {
		t.Fatal(refused)
	}

	late := f.sdkJob("late", 1, 1, 20, 0.1)
	late["deadline"], late["eta"] = "+2m30s", "3m"
	if id, why := f.submitDue(late); !strings.Contains(why, "it could be promised with --deadline") {
		t.Fatalf("%q: %s", id, why)
	}
	second, refused := f.submitDue(late, "--accept-counter")
	if refused != "" {
		t.Fatal(refused)
	}
	other := f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.1)) // wants the device, too

	for _, id := range []cluster.JobID{first, second} {
		f.awaitPhase(id, cluster.Succeeded)
		s := f.show(id)
		if s.Answer == nil || !s.Answer.Promised || s.Deadline == nil || s.Since.After(*s.Deadline) {
			t.Errorf("%s ended at %v: %+v", id, s.Since, s.Answer)
		}
	}
	f.await("the plan without those that have ended, and the others at work", func(m *record.Mirror) bool {
		return len(m.Promised.Value.Jobs) == 0 && (m.Job(long).State.Value.Phase == cluster.Running || m.Job(other).State.Value.Phase == cluster.Running)
	})
}

// Without a coordinator there is no answer yet, and one that is asked for is given when one
// leads: to a client that waits, and about the job of one that has gone.
func TestDeadlineWaitsForALeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2, policy: "elasticflow", interval: 2 * time.Second})
	f.kill("coordinator-1")
	f.await("no leader", func(m *record.Mirror) bool { return len(m.Leaders) == 0 })
	submit := func(name string) *session {
		cmd := f.command(1, "run", "-d", "--name", name, "--max", "1", "--deadline", "+30m", "--eta", "1m", "--checkpoint-dir", filepath.Join(f.dir, "c"), "--", "true")
		cmd.Dir = f.dir
		return startSession(t, cmd)
	}
	waits, gone := submit("waits"), submit("gone")
	twins := []*session{submit("twin"), submit("twin")}
	for _, s := range []*session{waits, gone} {
		s.await("it waits for the answer to its deadline")
	}
	gone.signal(os.Kill)
	gone.wait()
	f.startCoordinator(2)
	if status := waits.wait(); status != 0 || !strings.Contains(waits.said(), "is promised, planned to end by") {
		t.Errorf("run exited %d: %s", status, waits.said())
	}
	f.await("the other's answer", func(m *record.Mirror) bool {
		for _, v := range m.Jobs {
			if v.Spec.Value.Name == "gone" && v.Spec.Value.Answer != nil {
				return v.Spec.Value.Answer.Promised
			}
		}
		return false
	})
	// Of two that asked for one name at once one is told that it cannot have it, by an agent or by the leader.
	statuses := []int{twins[0].wait(), twins[1].wait()}
	if i := slices.Index(statuses, 1); i < 0 || statuses[1-i] != 0 || !strings.Contains(twins[i].said(), `name "twin" is in use by`) {
		t.Errorf("submitted twice: %v\n%s\n%s", statuses, twins[0].said(), twins[1].said())
	}
	if n := len(f.mirror().Jobs); n != 3 && n != 4 { // it is kept if the leader has refused it
		t.Errorf("%d jobs", n)
	}
}
