package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Two hosts with a network for training beside the one that agents speak on, and
// another name for it on each: real DDP over gloo goes there. Its trouble keeps
// new work away and is over by itself; addresses of IPv6 alone will do.
func TestTrainingHasANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	f := emptyFleet(t, config{nodes: 2, devices: 1, interval: 300 * time.Millisecond})
	f.connectHosts()
	f.ip("link", "add", "fabric", "type", "bridge")
	f.ip("link", "set", "fabric", "up")
	fabric := []string{"ib0", "rdma1"}
	for i, name := range fabric {
		cable := fmt.Sprintf("cable%d", i+1)
		f.ip("link", "add", cable, "type", "veth", "peer", "name", name, "netns", fmt.Sprint(f.hosts[i]))
		f.ip("link", "set", cable, "master", "fabric", "up")
	}
	f.ipOn(1, "addr", "add", "10.78.0.1/24", "dev", "ib0")
	f.ipOn(1, "link", "set", "ib0", "up")
	f.startEtcd()
	f.startCoordinator(1)
	for i, name := range fabric {
		f.startAgent(i+1, "--gossip-key-file", f.gossipKey(), "--train-interface", name)
	}
	f.awaitMembers()

	says := func(what string) {
		t.Helper()
		f.await("n2's inventory to say "+what, func(m *record.Mirror) bool {
			v := m.Node("n2").Inventory.Value
			return what == "" && v.Problem == "" && v.Devices[0].Health == cluster.Healthy ||
				what != "" && strings.Contains(v.Problem, what) && v.Devices[0].Health == cluster.Unhealthy
		})
	}
	says("rdma1: it is down")
	f.awaitNode("n1", "where its workers are reached", func(n api.NodeStatus) bool { return n.Addr == "10.77.0.1" && n.TrainAddr == "10.78.0.1" })
	f.awaitNode("n2", "what is wrong, with the remedy", func(n api.NodeStatus) bool { return strings.Contains(n.Problem, "ip link set rdma1 up") })
	j := f.torchJob("four", 2, 1<<30)
	j["min"] = 2
	four := f.submit(j)
	f.ipOn(2, "link", "set", "rdma1", "up")
	says("has no address that other nodes reach")
	f.ipOn(2, "addr", "add", "10.78.0.2/24", "dev", "rdma1")
	says("")
	f.meetOn(four, "10.78.0.", "=ib0", "=rdma1")

	for i, name := range fabric {
		f.ipOn(i+1, "addr", "flush", "dev", name)
		f.ipOn(i+1, "addr", "add", fmt.Sprintf("fd78::%d/64", i+1), "dev", name, "nodad")
	}
	f.await("addresses of IPv6", func(m *record.Mirror) bool {
		return m.Node("n1").Inventory.Value.Addr == "fd78::1" && m.Node("n2").Inventory.Value.Addr == "fd78::2"
	})
	j = f.torchJob("six", 2, 1<<30)
	j["min"] = 2
	f.meetOn(f.submit(j), "fd78::", "=ib0", "=rdma1")
	f.meetOn(f.submit(job{
		"name": "plain", "min": 2, "max": 2, "workdir": f.dir, "checkpoint-dir": filepath.Join(f.dir, "ckpt"),
		"command": []string{python, example(t, "plain.py"), "--steps", "1000000", "--save-every", "50"},
	}), "fd78::", "=ib0", "=rdma1")
}

// trained matches what the examples print once all workers have exchanged something.
var trained = regexp.MustCompile(`(?m)step [1-9]\d*: (loss|saved)`)

// meetOn waits until a job's workers have met, checks on which network and which
// interface those of each node were told, and stops it.
func (f *fleet) meetOn(id cluster.JobID, network string, interfaces ...string) {
	f.t.Helper()
	var told []string
	f.await("workers on both nodes", func(m *record.Mirror) bool {
		told = nil
		for i := range f.config.nodes {
			for _, w := range m.Node(node(i+1)).Ack(id, 1, f.nonce(id, 1)).Started.Value.Workers {
				environ, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(w.PID), "environ"))
				if err != nil {
					return false
				}
				for kv := range strings.SplitSeq(string(environ), "\x00") {
					if name, ok := strings.CutPrefix(kv, "NCCL_SOCKET_IFNAME="); ok {
						told = append(told, name)
					}
				}
			}
		}
		return len(told) == len(interfaces)
	})
	if got, want := fmt.Sprint(told), fmt.Sprint(interfaces); got != want {
		f.t.Errorf("workers were told %s, want %s", got, want)
	}
	f.eventually(string(id)+" to train", func() bool {
		out, _, _ := f.bellows("logs", string(id), "--rank", "0")
		return trained.MatchString(out)
	})
	job := f.mirror().Job(id)
	if host := job.Generation(1).Plan.Value.World.Master.Host; !strings.HasPrefix(host, network) || job.State.Value.Generation != 1 {
		f.t.Errorf("%s: met at %s in generation %d, want one generation on %s", id, host, job.State.Value.Generation, network)
	}
	f.mustBellows("stop", "--now", string(id))
	f.awaitPhase(id, cluster.Stopped)
}
