package e2e

import (
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

// Jobs say which nodes and devices they want, by what real agents read of
// theirs, and what they cannot have is said.
func TestJobsChooseTheirNodes(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 2, policy: "share", interval: 300 * time.Millisecond})
	d := f.driver()
	f.startEtcd()
	f.startCoordinator(1)
	d.agent(1, "FAKE_NVML_MODEL=NVIDIA A100-SXM4-40GB", "FAKE_NVML_GIB=40", "FAKE_NVML_UUID=a")
	d.agent(2, "FAKE_NVML_MODEL=NVIDIA H100 80GB HBM3", "FAKE_NVML_GIB=80", "FAKE_NVML_UUID=h")
	f.awaitMembers()
	for _, c := range []struct {
		args []string
		want cluster.NodeID // where it runs; empty: nowhere
		says string         // then
	}{
		{[]string{"--device-model", "h100"}, "n2", ""},
		{[]string{"--device-model", "A100"}, "n1", ""},
		{[]string{"--device-memory", "60G"}, "n2", ""},
		{[]string{"--device-memory", "40G", "--exclude-node", "n2"}, "n1", ""},
		{[]string{"--exclude-node", "n1"}, "n2", ""},
		{[]string{"--node", "n1", "--node", "n2", "--device-model", "h100"}, "n2", ""},
		{[]string{"--device-model", "b200"}, "", `n1: has devices of model "NVIDIA A100-SXM4-40GB", and the job wants "b200"`},
		{[]string{"--device-memory", "60G", "--exclude-node", "n2"}, "", "n1: has devices of 40 GiB, and the job wants 60 GiB or more"},
		{[]string{"--node", "n1", "--device-model", "h100"}, "", `n1: has devices of model "NVIDIA A100-SXM4-40GB"`},
	} {
		args := append([]string{"run", "-d", "--min", "1", "--max", "1", "--workdir", f.dir, "--checkpoint-dir", filepath.Join(f.dir, "ckpt")}, c.args...)
		out, errs, code := f.bellows(append(args, "--", f.script("train.sh", patient))...)
		if code != 0 {
			t.Fatal(errs)
		}
		id := cluster.JobID(strings.TrimSpace(out))
		if c.want == "" {
			f.awaitShown(id, "why it waits: "+c.says, func(s api.JobStatus) bool { return !s.Phase.Active() && strings.Contains(s.Reason, c.says) })
		} else {
			f.awaitRunning(id, 1, 0)
			if on := f.mirror().Job(id).Generation(1).Plan.Value.World.Members[0].Node; on != c.want {
				t.Errorf("%v: runs on %s, want %s", c.args, on, c.want)
			}
		}
		f.mustBellows("stop", "-w", string(id))
	}
}

// One process for each node, with the secrets of a file that each node reads:
// nothing of them is ever in etcd, in an argument, or in the agents' own files.
func TestOneProcessPerNodeWithSecrets(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "share", interval: 300 * time.Millisecond})
	const secret = "correct-horse-battery-staple"
	secrets := filepath.Join(f.owned("home", ordinary), "secrets")
	if err := os.WriteFile(secrets, []byte("# the tracker's\nTOKEN="+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(secrets, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	script := f.script("nodes.sh", `echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK of $LOCAL_WORLD_SIZE devices $BELLOWS_LOCAL_DEVICES of $BELLOWS_DEVICES token ${#TOKEN}"
`+patient)
	if err := os.Chmod(script, 0o755); err != nil { //nolint:gosec // it is never run by others
		t.Fatal(err)
	}
	s := f.as(ordinary, "run", "-d", "--name", "a", "--process", "per-node", "--min", "4", "--max", "4", "--env-file", secrets,
		"--workdir", f.dir, "--checkpoint-dir", f.owned("ckpt", ordinary), "--", script)
	if s.wait() != 0 {
		t.Fatal(s.said())
	}
	id := cluster.JobID(strings.TrimSpace(s.out.String()))
	m := f.await("it to run", func(m *record.Mirror) bool { return m.Job(id).State.Value.Phase == cluster.Running })
	for i := range 2 {
		if workers := m.Node(node(i+1)).Ack(id, 1, f.nonce(id, 1)).Started.Value.Workers; len(workers) != 1 {
			t.Errorf("%s has workers %+v, want one process", node(i+1), workers)
		}
	}
	for rank := range 2 {
		want := fmt.Sprintf("rank %d of 2 local 0 of 1 devices 2 of 4 token %d", rank, len(secret))
		f.eventually(want, func() bool {
			out, _, _ := f.bellows("logs", "a", "--rank", fmt.Sprint(rank))
			return strings.Contains(out, want)
		})
	}
	for _, c := range f.history() {
		if strings.Contains(string(c.Value), secret) {
			t.Errorf("etcd had the secret under %s", c.Key)
		}
	}
	for _, pid := range f.leftovers() {
		if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(args), secret) {
			t.Errorf("the secret is an argument of process %d", pid)
		}
	}
	f.mustBellows("stop", "-w", "a")
	for _, path := range f.paths(f.dir, "", "") {
		if text, err := os.ReadFile(path); err == nil && path != secrets && slices.Contains([]string{".json", ".log", ""}, filepath.Ext(path)) && strings.Contains(string(text), secret) {
			t.Errorf("%s holds the secret", path)
		}
	}

	// A node where the file is not its owner's alone refuses it, and says so.
	if err := os.Chmod(secrets, 0o644); err != nil { //nolint:gosec // what is under test
		t.Fatal(err)
	}
	f.mustBellows("resume", "a")
	f.awaitShown(id, "what is wrong with the file", func(s api.JobStatus) bool {
		return strings.Contains(s.Reason, "env file "+secrets) && strings.Contains(s.Reason, "chmod 600")
	})
	f.mustBellows("stop", "-w", "a")
	f.nothingLeft(id)
}
