package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// What happens is told, in order and once, to followers on any node as
// any user, across the end of an agent, another leader and a compacted etcd.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 3, devices: 1, coordinators: 2, policy: "share"})
	cmd := f.command(3, "events", "-f", "-o", "json")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	}
	follow := startSession(t, cmd)
	id := f.submit(f.sdkJob("told", 1, 2, 100000, 0.05))
	f.awaitEvent(follow, "started", func(e api.Event) bool {
		return e.Kind == "started" && e.Job == string(id) && e.To == 2 && e.Seconds > 0
	})

	// The agent that is asked dies, and etcd forgets its history, while things go on.
	f.kill("agent-n3")
	if out, errs, code := f.bellows("drain", "n1", "--reason", "new fans"); code != 0 {
		t.Fatal(out, errs)
	}
	f.await("n1 to be drained", func(m *record.Mirror) bool { return m.Node("n1").Cordon.Exists() })
	f.compact()
	f.startAgent(3)
	f.awaitEvent(follow, "the rescale", func(e api.Event) bool {
		return e.Kind == "rescaled" && e.From == 2 && strings.Contains(e.Why, "new fans")
	})
	leader := f.leader()
	f.kill("coordinator-" + strings.TrimPrefix(leader, "c"))
	f.awaitEvent(follow, "another leader", func(e api.Event) bool { return e.Kind == "leader" && e.By != leader && e.Why == "leads after "+leader })

	_ = syscall.Kill(f.started(id)[0].PID, syscall.SIGKILL) // not one that is parked
	f.awaitEvent(follow, "the failure", func(e api.Event) bool {
		return e.Kind == "worker-failed" && e.Job == string(id) && e.Node != "" && e.Rank != nil
	})
	f.awaitPhase(id, cluster.Running)
	f.stop(id)
	f.awaitEvent(follow, "the end", func(e api.Event) bool { return e.Kind == "stopped" && e.Job == string(id) })
	// A node that is ended with nothing on it says goodbye; one that is killed is lost.
	f.terminate("agent-n1")
	f.awaitEvent(follow, "n1's goodbye", func(e api.Event) bool { return e.Kind == "node-left" && e.Node == "n1" })

	out, errs, code := f.bellowsOn(2, "events", "-o", "json")
	if code != 0 {
		t.Fatal(errs)
	}
	listed := eventsIn(t, out)
	last := listed[len(listed)-1]
	f.awaitEvent(follow, "all that is listed", func(e api.Event) bool { return e.Revision >= last.Revision })
	if told := eventsIn(t, follow.out.String()); !slices.EqualFunc(told[:min(len(told), len(listed))], listed, sameEvent) {
		t.Errorf("told while it happened:\n%s\nlisted afterwards:\n%s", kinds(told), kinds(listed))
	}
	var job []string
	for _, e := range listed {
		if e.Job == string(id) {
			job = append(job, e.Kind)
		}
	}
	for _, want := range []string{"submitted", "started", "halting", "rescaled", "worker-failed", "stopping", "stopped"} {
		if !slices.Contains(job, want) {
			t.Errorf("of the job nothing tells %s: %v", want, job)
		}
	}
	one, _, code := f.bellowsOn(2, "events", string(id), "-o", "json")
	if got := eventsIn(t, one); code != 0 || len(got) != len(job) {
		t.Errorf("events %s exits %d with %d events, want %d", id, code, len(got), len(job))
	}
	if page, _, _ := f.bellowsOn(2, "events", "--since", "1h"); !strings.Contains(page, "n1 ") || !strings.HasPrefix(page, "TIME") {
		t.Errorf("the page is %s", page)
	}
	if page, _, _ := f.bellowsOn(2, "events", "--since", "0s"); strings.Contains(page, "submitted") {
		t.Errorf("since now there was %s", page)
	}
	if _, errs, code := f.bellowsOn(2, "events", "never-was"); code != 1 || !strings.Contains(errs, `there is no job "never-was"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A node that vanishes is told of by the leader, also where nothing ran on it.
func TestEventsOfALostNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 1})
	follow := startSession(t, f.command(1, "events", "-f", "-o", "json"))
	f.stopEtcd()
	f.startEtcd()
	f.awaitMembers()
	f.kill("agent-n2")
	f.awaitEvent(follow, "the loss", func(e api.Event) bool { return e.Kind == "node-lost" && e.Node == "n2" })
	f.startAgent(2)
	joined := 0
	f.awaitEvent(follow, "its return", func(api.Event) bool {
		joined = 0
		for _, e := range eventsIn(t, follow.out.String()) {
			if e.Kind == "node-joined" && e.Node == "n2" {
				joined++
			}
		}
		return joined == 2
	})
	_ = follow.cmd.Process.Signal(syscall.SIGTERM) // which a program also hears where a shell has it ignore Ctrl-C
	follow.wait()
}

// awaitEvent waits until one of the events that a session has printed is wanted.
func (u *people) awaitEvent(s *session, what string, want func(api.Event) bool) {
	u.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		told := eventsIn(u.t, s.out.String())
		if slices.ContainsFunc(told, want) {
			return
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("waited in vain for %s; told was:\n%s\n%s", what, kinds(told), s.errs.String())
		}
	}
}

// eventsIn reads JSON lines; the last may be unfinished.
func eventsIn(t testing.TB, text string) []api.Event {
	t.Helper()
	var list []api.Event
	for line := range bytes.Lines([]byte(text)) {
		if line[len(line)-1] != '\n' {
			break
		}
		var e api.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

func sameEvent(a, b api.Event) bool {
	return a.Revision == b.Revision && a.Kind == b.Kind && a.Job == b.Job && a.Node == b.Node
}

func kinds(list []api.Event) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%d %s %s %s %s\n", e.Revision, e.Kind, e.Job, e.Node, e.Why)
	}
	return b.String()
}

// compact makes etcd forget everything but what is.
func (r *records) compact() {
	r.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{r.endpoint}, DialTimeout: patience})
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Compact(r.t.Context(), r.mirror().Revision, clientv3.WithCompactPhysical()); err != nil {
		r.t.Fatal(err)
	}
}

// terminate ends a process as systemd does, and waits until it is gone.
func (ps *processes) terminate(name string) {
	ps.t.Helper()
	p := ps.procs[name]
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
}
