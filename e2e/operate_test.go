package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store/server"
)

// Agents and coordinators that cannot be in the cluster as they were started say
// so, with a remedy, and end; those that are in it notice nothing.
func TestWhatAnOperatorGetsWrong(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	other := f.otherEtcd(record.Meta{Format: record.Format, Cluster: "somewhere-else"})
	newer := f.otherEtcd(record.Meta{Format: record.Format + 1, Cluster: "bellows"})
	busyTCP := f.listenTCP(f.addr(20) + ":7946")
	busyUDP := f.listenUDP(f.addr(21) + ":7946")
	dir := func(name string) string { return filepath.Join(f.dir, name) }
	at := func(etcd string, i int, more ...string) []string {
		return append([]string{
			"agent", "--node", fmt.Sprintf("n%d", i), "--etcd", etcd, "--bind", f.addr(i), "--socket", f.socket(i),
			"--data-dir", f.nodeDir(i), "--simulate-devices", "1", "--lock-dir", dir("locks"),
		}, more...)
	}
	agent := func(i int, more ...string) []string { return at(f.endpoint, i, more...) }
	coordinator := func(more ...string) []string { return append([]string{"coordinator", "--name", "wrong"}, more...) }
	f.writeIdentity("of-n2", `{"format": 1, "node": "n2", "cluster": "bellows"}`)
	f.writeIdentity("newer", `{"format": 2, "node": "n8", "cluster": "bellows"}`)
	f.writeIdentity("elsewhere", `{"format": 1, "node": "n8", "cluster": "somewhere-else"}`)
	f.writeIdentity("torn", `{"format": 1, "no`)

	key := dir("key")
	if err := os.WriteFile(key, []byte("an example of thirty-two bytes ."), 0o600); err != nil {
		t.Fatal(err)
	}

	before := f.mirror().Revision
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"an agent with another node's data", agent(8, "--data-dir", dir("of-n2")), []string{
			`data directory ` + dir("of-n2") + `: it belongs to node "n2", not "n8": start this agent with --node n2, or choose another directory`,
		}},
		{"an agent with a newer version's data", agent(8, "--data-dir", dir("newer")), []string{
			dir("newer") + `: it has format 2, this version of Bellows reads format 1: run the version that wrote it, or choose another directory`,
		}},
		{"an agent with another cluster's data", agent(8, "--data-dir", dir("elsewhere"), "--cluster", "bellows"), []string{
			dir("elsewhere") + `: it belongs to cluster "somewhere-else", not "bellows": choose another directory, or that cluster`,
		}},
		{"an agent whose data is of another cluster than etcd", agent(8, "--data-dir", dir("elsewhere")), []string{
			`data directory ` + dir("elsewhere"), `this etcd belongs to cluster "bellows", not "somewhere-else"`, "or --etcd to another etcd",
		}},
		{"an agent with torn data", agent(8, "--data-dir", dir("torn")), []string{dir("torn"), "agent.json"}},
		{"an agent with a running agent's data", agent(1, "--socket", f.socket(8)), []string{
			"data directory " + f.nodeDir(1) + ": another agent is using it: stop that one, or choose another directory",
		}},
		{"an agent for another cluster than etcd's", agent(8, "--cluster", "mine"), []string{
			`this etcd belongs to cluster "bellows", not "mine": set --cluster bellows, or --etcd to another etcd`,
		}},
		{"an agent for an etcd of a newer format", at(newer, 9), []string{
			"/bellows/meta: format 2, this version of Bellows reads format 1: run the version that the cluster's other nodes run",
		}},
		{"a coordinator for another cluster than etcd's", coordinator("--etcd", other), []string{
			`/bellows/meta: this etcd belongs to cluster "somewhere-else", not "bellows": set --cluster somewhere-else, or --etcd to another etcd`,
		}},
		{"a coordinator for an etcd of a newer format", coordinator("--etcd", newer), []string{
			"/bellows/meta: format 2, this version of Bellows reads format 1",
		}},
		{"a coordinator for two etcds", coordinator("--etcd", f.endpoint+","+other), []string{
			f.endpoint, other, "are not members of one etcd: set --etcd to the members of one",
		}},
		{"an agent whose gossip port is taken for TCP", agent(8, "--bind", f.addr(20), "--data-dir", dir("d8")), []string{busyTCP, "address already in use"}},
		{"an agent whose gossip port is taken for UDP", agent(8, "--bind", f.addr(21), "--data-dir", dir("d8")), []string{busyUDP, "address already in use"}},
		{"an agent whose address is not this machine's", agent(8, "--bind", "203.0.113.1", "--gossip-key-file", key, "--data-dir", dir("d8")), []string{
			"203.0.113.1:7946", "cannot assign requested address",
		}},
		{"an agent whose socket another agent has", agent(8, "--data-dir", dir("d8"), "--socket", f.socket(1)), []string{
			"listen on " + f.socket(1) + ": another agent answers there: stop it, or choose another --socket",
		}},
		{"an agent whose socket is a file", agent(8, "--data-dir", dir("d8"), "--socket", dir("newer/agent.json")), []string{
			"listen on " + dir("newer/agent.json") + ": something is there that is no socket: remove it, or choose another --socket",
		}},
		{"a second agent of a name", agent(8, "--node", "n1", "--data-dir", dir("twin")), []string{
			"node name is in use: node n1 is alive at " + f.addr(1), "give this agent another --node, or stop that one",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startSession(t, f.command(1, c.args...))
			want := 1
			if slices.ContainsFunc(c.says, func(s string) bool {
				return strings.Contains(s, "this etcd belongs to") || strings.Contains(s, record.MetaKey) ||
					strings.Contains(s, "it belongs to") || strings.Contains(s, "it has format")
			}) {
				want = 2 // for ever: a unit does not try it again
			}
			if code := s.wait(); code != want {
				t.Errorf("exit %d, want %d", code, want)
			}
			last := lastLine(s.errs.String())
			for _, want := range c.says {
				if !strings.Contains(last, want) {
					t.Errorf("its last words %q lack %q", last, want)
				}
			}
		})
	}
	m := f.mirror()
	for _, keys := range f.writes(before, m.Revision) {
		t.Errorf("something was written: %v", keys)
	}
	if m.Node("n1").Alive.Value.Addr != f.addr(1) || len(m.Nodes) != 1 {
		t.Errorf("the cluster's nodes are %v, n1 is %+v", m.NodeIDs(), m.Node("n1").Alive.Value)
	}
	if sockets, _ := filepath.Glob(dir("n[89].sock")); len(sockets) > 0 {
		t.Errorf("sockets are left: %v", sockets)
	}
	// Nothing of them holds anything: the node that was refused comes up where they were.
	f.comesAndLeaves(agent(8, "--bind", f.addr(8), "--data-dir", dir("d8"))...)
}

// comesAndLeaves starts n8's agent and ends it, until it leaves the cluster with its end: it
// does once it has looked for what runs there, which takes the longer the busier the machine is.
func (f *fleet) comesAndLeaves(args ...string) {
	f.t.Helper()
	look := time.Duration(0)
	f.eventually("an agent on which nothing runs to leave the cluster with its end", func() bool {
		f.start("right", args...)
		f.await("n8", func(m *record.Mirror) bool { return m.Node("n8").Alive.Exists() })
		time.Sleep(look)
		f.terminate("right")
		look += 2 * time.Second
		return !f.mirror().Node("n8").Alive.Exists()
	})
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// otherEtcd starts an etcd with a meta record and returns its address.
func (r *records) otherEtcd(meta record.Meta) string {
	r.t.Helper()
	dir := filepath.Join(r.dir, fmt.Sprintf("etcd-%s-%d", meta.Cluster, meta.Format))
	server, err := server.Start(context.Background(), server.Config{DataDir: dir, Name: meta.Cluster, Log: zerolog.Nop()})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = server.Close(context.Background()) })
	s, err := openStore(server.Endpoint())
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close()
	out := s.Commit(context.Background(), record.Txn{ID: "meta", Then: []record.Op{record.Put(record.MetaKey, meta)}})
	if out.Result != record.Applied {
		r.t.Fatal(out.Err)
	}
	return server.Endpoint()
}

// writeIdentity makes an agent's data directory.
func (p *place) writeIdentity(name, text string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agent.json"), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) listenTCP(address string) string {
	p.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = l.Close() })
	return address
}

func (p *place) listenUDP(address string) string {
	p.t.Helper()
	l, err := net.ListenPacket("udp", address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = l.Close() })
	return address
}

// Rendezvous ports that another process has taken are not the job's fault: the
// job says which, tries others, charges nothing, and runs when one is free.
func TestRendezvousPortsInUse(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	const first, count = 28100, 2
	var busy []net.Listener
	for port := first; port < first+count; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", f.addr(5), port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		busy = append(busy, l)
	}
	f.start("agent-n5", "agent", "--node", "n5", "--etcd", f.endpoint, "--bind", f.addr(5), "--socket", f.socket(5), "--data-dir", f.nodeDir(5),
		"--simulate-devices", "2", "--lock-dir", filepath.Join(f.dir, "locks"), "--ports", fmt.Sprintf("%d+%d", first, count))
	f.await("n5", func(m *record.Mirror) bool { return m.Node("n5").Alive.Exists() })
	id := f.submit(f.sdkJob("meets", 2, 2, 20, 0.05)) // two devices: only n5 has them
	f.await("a third attempt, after both ports", func(m *record.Mirror) bool { return m.Job(id).State.Value.Generation >= 3 })
	ports := map[int]bool{}
	for g := cluster.Generation(1); g <= 2; g++ {
		ports[f.mirror().Job(id).Generation(g).Plan.Value.World.Master.Port] = true
	}
	if !ports[first] || !ports[first+1] {
		t.Errorf("of the ports %d and %d the attempts took %v", first, first+1, ports)
	}
	for g := cluster.Generation(1); g <= 2; g++ {
		plan := f.mirror().Job(id).Generation(g).Plan.Value
		failed := f.mirror().Node("n5").Ack(id, g, plan.World.Nonce).Failed.Value
		if failed.Kind != record.PortTaken {
			t.Errorf("generation %d ended with %+v", g, failed)
		}
	}
	for _, l := range busy {
		_ = l.Close()
	}
	if s := f.awaitPhase(id, cluster.Succeeded); s.Restarts != 0 {
		t.Errorf("it was charged to the job: %+v", s)
	}
	f.nothingLeft(id)
}
