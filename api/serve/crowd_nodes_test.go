package serve

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// follower is a follower of logs on another node, for a user.
type follower struct {
	begun chan struct{}
	ended chan error
	stop  context.CancelFunc
}

// followFrom makes one node's agent follow a job's logs on another, for its owner,
// and waits for the first line of the answer or for its end.
func followFrom(t *testing.T, n1 *agent, addr string, job cluster.JobID, who cluster.Owner) (f follower, refused error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f = follower{begun: make(chan struct{}, 100), ended: make(chan error, 1), stop: cancel}
	none := 0
	go func() {
		f.ended <- n1.server.logs.agents.Logs(ctx, api.Agent{Node: "n2", Addr: addr}, api.NodeLogQuery{Job: job, Query: api.LogQuery{Generation: 1, Follow: true, Tail: &none}, Who: who},
			func(api.LogLine) error { f.begun <- struct{}{}; return nil })
	}()
	t.Cleanup(cancel)
	select {
	case <-f.begun:
		return f, nil
	case err := <-f.ended:
		return f, err
	}
}

// A node's agent asks another one for all users of its node: one who follows many
// logs is told at the bound, and leaves connections to the others.
func TestAUserLeavesConnectionsToOthers(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	ann, bob := cluster.Owner{UID: 70001, GID: 70001, User: "ann"}, cluster.Owner{UID: 70002, GID: 70002, User: "bob"}
	for id, who := range map[cluster.JobID]cluster.Owner{"anns-aaaaaa": ann, "bobs-bbbbbb": bob} {
		store.admit(t, id, who, record.State{})
		store.plan(t, id, 1, "n1", "n2")
	}
	ca := authority(t)
	n1, n2 := serve(t, store, "n1", &ann), serve(t, store, "n2", nil)
	n1.server.cfg.Identity = certified(t, ca, "n1")
	store.put(t, record.Put(record.AliveKey("n1"), record.Alive{API: "unix:" + n1.socket}))
	addr := "tls:" + n2.serveNodes(t, certified(t, ca, "n2"))
	eventually(t, "both are alive", func() bool {
		nodes, err := n2.Nodes(t.Context())
		return err == nil && len(nodes) == 2 && nodes[0].Alive && nodes[1].Alive
	})
	var first follower
	for i := range userConnections {
		f, err := followFrom(t, n1, addr, "anns-aaaaaa", ann)
		if err != nil {
			t.Fatalf("follower %d: %v", i, err)
		}
		first = f
	}
	_, err := followFrom(t, n1, addr, "anns-aaaaaa", ann)
	if api.CodeOf(err) != api.Limited || !strings.Contains(err.Error(), "user ann reads logs of node n2 over 64 connections from node n1") {
		t.Errorf("one more: %v", err)
	}
	if _, err = followFrom(t, n1, addr, "bobs-bbbbbb", bob); err != nil {
		t.Errorf("another user: %v", err)
	}
	// The user reads why in the answer of the own node's agent.
	var notices []string
	if err = n1.Logs(t.Context(), "anns-aaaaaa", api.LogQuery{}, func(l api.LogLine) error {
		if l.Missing {
			notices = append(notices, l.Notice)
		}
		return nil
	}); err != nil || len(notices) != 1 || !strings.Contains(notices[0], "end some of those") {
		t.Errorf("the merged logs: %q, %v", notices, err)
	}
	first.stop()
	eventually(t, "what has ended counts no longer", func() bool {
		_, err = followFrom(t, n1, addr, "anns-aaaaaa", ann)
		return err == nil
	})
}

// A node beyond its own bound gets an answer, too.
func TestANodeBeyondItsConnectionsIsAnswered(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := guardedNodes(plain, certified(t, ca, "n2").Server())
	t.Cleanup(func() { _ = ln.Close() })
	accepted := make(chan net.Conn, nodeConnections+1)
	go func() {
		defer close(accepted)
		for {
			c, failure := ln.Accept()
			if failure != nil {
				return
			}
			accepted <- c // no server behind it ends what says nothing
		}
	}()
	for range nodeConnections {
		c, failure := net.Dial("tcp", plain.Addr().String())
		if failure != nil {
			t.Fatal(failure)
		}
		t.Cleanup(func() { _ = c.Close() })
		<-accepted
	}
	c, err := api.NewAgents("n1", certified(t, ca, "n1").Client).Client(api.Agent{Node: "n2", Addr: "tls:" + plain.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	var refusal *api.Error
	eventually(t, "one more is answered", func() bool { // a slow machine may exceed the bound of a handshake
		_, err = c.Nodes(t.Context())
		return errors.As(err, &refusal)
	})
	if refusal.Code != api.Limited || !strings.Contains(refusal.Message, "512 of one node") {
		t.Errorf("one more: %v", refusal)
	}
}
