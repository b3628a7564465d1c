package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// cut keeps two hosts from hearing each other, or lets them again; etcd both
// still reach.
func (p *place) cut(i, j int, apart bool) {
	p.t.Helper()
	verb := "del"
	if apart {
		verb = "add"
	}
	p.ipOn(i, "route", verb, "blackhole", p.addr(j)+"/32")
	p.ipOn(j, "route", verb, "blackhole", p.addr(i)+"/32")
}

// awaitGossip waits until n1's agent says of a node whether it is alive by its lease, and what is heard of it.
func (u *people) awaitGossip(id cluster.NodeID, alive bool, heard string) {
	u.t.Helper()
	u.awaitNode(id, fmt.Sprintf("alive %t, heard %s", alive, heard), func(n api.NodeStatus) bool { return n.Alive == alive && n.Gossip == heard })
}

// Nodes that do not hear each other, and then do again: lost gossip alone
// costs nothing; a node that is cut off from etcd as well ends its workers, and
// is back soon after it is reached again.
func TestNodesComeTogetherAgain(t *testing.T) {
	t.Parallel()
	if !ownNetwork(t) {
		return
	}
	f := emptyFleet(t, config{nodes: 3, devices: 1, policy: "share", interval: 300 * time.Millisecond})
	f.connectHosts()
	f.startEtcd()
	f.startCoordinator(1)
	for i := range f.config.nodes {
		f.startAgent(i+1, "--gossip-key-file", f.gossipKey(), "--tls-dir", f.certificate(i+1))
	}
	f.awaitMembers()
	f.awaitGossip("n3", true, "alive")
	id := f.submit(f.sdkJob("a", 1, 2, 1<<30, 0.05, "--save-every", "20"))
	g := f.awaitRunning(id, 2, 0)
	f.awaitStep("a", 5, 2)

	apart := func(apart bool) {
		f.cut(1, 2, apart)
		f.cut(2, 3, apart)
		f.cut(1, 3, apart)
	}
	apart(true)
	f.awaitGossip("n2", true, "dead")
	f.awaitGossip("n3", true, "dead")
	f.awaitStep("a", f.lastStep("a")+600, 2) // at 40 steps a second: longer than any deadline
	if s := f.mirror().Job(id).State.Value; s.Generation != g || s.Phase != cluster.Running {
		t.Errorf("gossip that fell silent ended something: %+v", s)
	}
	healed := time.Now()
	apart(false)
	f.awaitGossip("n2", true, "alive")
	f.awaitGossip("n3", true, "alive")
	t.Logf("all heard of each other %s after they could", time.Since(healed).Round(time.Second))

	// One of the job's nodes is cut off from everything; the spare one takes its place.
	off := 3
	on := func(m cluster.Member) bool { return m.Node == "n2" }
	if slices.ContainsFunc(f.mirror().Job(id).Generation(g).Plan.Value.World.Members, on) {
		off = 2
	}
	f.ip("link", "set", fmt.Sprintf("wire%d", off), "down")
	g = f.awaitRunning(id, 2, g)
	for _, m := range f.mirror().Job(id).Generation(g).Plan.Value.World.Members {
		if m.Node == node(off) {
			t.Errorf("generation %d runs on %s, which is cut off", g, m.Node)
		}
	}
	f.awaitGossip(node(off), false, "dead")
	f.awaitStep("a", f.lastStep("a")+20, 2)
	healed = time.Now()
	f.ip("link", "set", fmt.Sprintf("wire%d", off), "up")
	f.awaitGossip(node(off), true, "alive")
	t.Logf("%s was back %s after it was reached again", node(off), time.Since(healed).Round(time.Second))
	f.mustBellows("scale", "a", "--max", "1")
	g = f.awaitRunning(id, 1, g)
	other := f.submit(f.sdkJob("b", 2, 2, 1<<30, 0.05))
	f.awaitRunning(other, 2, 0) // it needs the node that was away
	f.mustBellows("stop", "-w", "b")

	// etcd is cut off from all: all end their workers, and the job goes on after it.
	f.ip("addr", "del", "10.77.0.254/24", "dev", "switch")
	f.eventually("workers to end by themselves", func() bool { return len(f.workers(id)) == 0 })
	f.ip("addr", "add", "10.77.0.254/24", "dev", "switch")
	f.awaitRunning(id, 1, g)
	f.awaitStep("a", f.lastStep("a")+20, 1)
	m := f.await("all nodes", func(m *record.Mirror) bool {
		return m.Node("n1").Alive.Exists() && m.Node("n2").Alive.Exists() && m.Node("n3").Alive.Exists()
	})
	if s := m.Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("it was charged to the job: %+v", s)
	}
	f.mustBellows("stop", "-w", "a")
	f.nothingLeft(id)
	batches(t, f.trace("a")) // no step is missing
}
