package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// startAgentSeeing starts node i's agent where files look different: commands,
// run in a mount namespace of its own, make it so.
func (f *fleet) startAgentSeeing(i int, commands string, more ...string) *proc {
	f.t.Helper()
	args := append([]string{
		"--mount", "--propagation", "private", "sh", "-ec", commands + "\nexec \"$@\"", "sh", binary,
		"agent", "--node", string(node(i)), "--etcd", f.endpoint, "--bind", f.addr(i), "--socket", f.socket(i),
		"--data-dir", f.nodeDir(i), "--simulate-devices", fmt.Sprint(f.config.devices), "--lock-dir", filepath.Join(f.dir, "locks"),
	}, more...)
	return f.startProgram(fmt.Sprintf("agent-n%d", i), "unshare", args...)
}

// A node on which something of a job's is not as on the others is named, with
// what it lacks, and the job runs without it; one that may run nowhere else says why.
func TestNodesThatDiffer(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const hide = "mount -t tmpfs none %s\n"
	dirs := func(f *fleet) map[string]string {
		all := map[string]string{}
		for _, name := range []string{"work", "tools", "ckpt"} {
			all[name] = f.owned(name, ordinary)
		}
		return all
	}
	for _, c := range []struct {
		name string
		see  func(f *fleet, dirs map[string]string) string // on n2
		says []string
	}{
		{"workdir", func(_ *fleet, d map[string]string) string { return fmt.Sprintf(hide+"chmod 700 %[1]s\n", d["work"]) }, []string{
			"workdir ", "permission denied: make it available at the same path on every node",
		}},
		{"interpreter", func(_ *fleet, d map[string]string) string { return fmt.Sprintf(hide, d["tools"]) }, []string{
			"command ", "no such file or directory: install it at the same path on every node, and submit with the environment it needs activated",
		}},
		{"checkpoint directory", func(_ *fleet, d map[string]string) string { return fmt.Sprintf(hide+"chmod 1777 %[1]s\n", d["ckpt"]) }, []string{
			"checkpoint_dir ", "n1",
		}},
		{"user", func(f *fleet, _ map[string]string) string {
			own := filepath.Join(f.dir, "passwd")
			if err := os.WriteFile(own, []byte("root:x:0:0:root:/root:/bin/sh\nsomeone:x:65534:65534::/:/bin/sh\n"+ordinaryName+":x:4711:4711::/:/bin/sh\n"), 0o600); err != nil {
				f.t.Fatal(err)
			}
			return "mount --bind " + own + " /etc/passwd\nchmod 644 /etc/passwd\n"
		}, []string{ordinaryName, "65534", "4711"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := emptyFleet(t, config{nodes: 2, policy: "share", interval: 300 * time.Millisecond})
			f.startEtcd()
			f.startCoordinator(1)
			d := dirs(f)
			tool := filepath.Join(d["tools"], "train")
			if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+patient), 0o755); err != nil { //nolint:gosec // it is never run
				t.Fatal(err)
			}
			f.startAgent(1)
			f.startAgentSeeing(2, c.see(f, d))
			f.awaitMembers()
			submit := func(name string, more ...string) cluster.JobID {
				args := append([]string{"run", "-d", "--name", name, "--checkpoint-dir", d["ckpt"], "--workdir", d["work"]}, more...)
				s := f.as(ordinary, append(args, "--", tool)...)
				if s.wait() != 0 {
					t.Fatal(s.said())
				}
				return cluster.JobID(strings.TrimSpace(s.out.String()))
			}
			both := submit("both", "--min", "1", "--max", "2")
			m := f.await("the job to run without n2", func(m *record.Mirror) bool {
				v := m.Job(both)
				members := v.Generation(v.State.Value.Generation).Plan.Value.World.Members
				return v.State.Value.Phase == cluster.Running && len(members) == 1 && members[0].Node == "n1" && len(v.State.Value.Excluded) > 0
			})
			s := m.Job(both).State.Value
			for _, want := range c.says {
				if !strings.Contains(s.Excluded["n2"], want) {
					t.Errorf("n2 is excluded because %q, which lacks %q", s.Excluded["n2"], want)
				}
			}
			if s.Restarts != 0 || len(s.Excluded) != 1 {
				t.Errorf("it was charged to the job, or to n1: %+v", s)
			}
			if out, _, _ := f.bellows("show", "both"); !strings.Contains(out, "n2") || !strings.Contains(out, c.says[0]) {
				t.Errorf("show does not tell:\n%s", out)
			}
			there := submit("there", "--max", "1", "--node", "n2")
			if c.name == "checkpoint directory" { // to a node that is alone with it, it is as good as any
				f.awaitPhase(there, cluster.Running)
				f.stop(there)
				f.awaitPhase(there, cluster.Stopped)
			} else {
				status := f.awaitShown(there, "why it cannot run", func(s api.JobStatus) bool { return strings.Contains(s.Reason, "n2: ") })
				if !containsAll(status.Reason, c.says[0]) || status.Phase.Active() {
					t.Errorf("%s because %q", status.Phase, status.Reason)
				}
			}
			f.stop(both)
			f.awaitPhase(both, cluster.Stopped)
			f.nothingLeft(both)
			f.nothingLeft(there)
		})
	}
}

// Agents with different gossip keys do not hear each other, and say so; records
// go through etcd, so that jobs go on where nothing else is amiss.
func TestGossipKeysThatDiffer(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 2})
	f.startEtcd()
	f.startCoordinator(1)
	other := filepath.Join(f.dir, "other.key")
	if err := os.WriteFile(other, []byte("fedcba9876543210"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.startAgent(1, "--gossip-key-file", f.gossipKey())
	f.startAgent(2, "--gossip-key-file", other)
	f.awaitMembers()
	remedy := []string{"a node has another gossip key, or none, and is not heard: put the same --gossip-key-file on every node"}
	f.awaitLog(f.procs["agent-n1"], remedy...)
	f.awaitLog(f.procs["agent-n2"], remedy...)
	f.awaitNode("n2", "alive, and never heard", func(n api.NodeStatus) bool { return n.Alive && n.Gossip == "" })
	id := f.submit(f.sdkJob("across", 2, 2, 20, 0.05))
	if s := f.awaitPhase(id, cluster.Succeeded); s.Restarts != 0 {
		t.Errorf("it was restarted: %+v", s)
	}
	// With the right key it is heard, without anything else being restarted.
	f.kill("agent-n2")
	f.startAgent(2, "--gossip-key-file", f.gossipKey())
	f.awaitNode("n2", "heard", func(n api.NodeStatus) bool { return n.Alive && n.Gossip == "alive" })
}
