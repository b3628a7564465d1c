package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// write appends to a rank's log on an agent's node.
func (a *agent) write(t *testing.T, job string, generation, rank int, text string) string {
	t.Helper()
	path := filepath.Join(a.logs, job, fmt.Sprintf("g%08d", generation), fmt.Sprintf("rank-%d.log", rank))
	appendTo(t, path, text)
	return path
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// cluster2 is a job on two nodes, each with an agent of its own.
func cluster2(t *testing.T) (store *fakeStore, n1, n2 *agent) {
	t.Helper()
	store = newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{})
	store.plan(t, "train-aaaaaa", 1, "n1", "n2")
	n1, n2 = serve(t, store, "n1", nil), serve(t, store, "n2", nil)
	store.put(t,
		record.Put(record.AliveKey("n1"), record.Alive{API: "unix:" + n1.socket}),
		record.Put(record.AliveKey("n2"), record.Alive{API: "unix:" + n2.socket}),
	)
	eventually(t, "both are alive", func() bool {
		nodes, err := n1.Nodes(t.Context())
		return err == nil && len(nodes) == 2 && nodes[0].Alive && nodes[1].Alive
	})
	return store, n1, n2
}

func texts(t *testing.T, a *agent, q api.LogQuery) []string {
	t.Helper()
	var got []string
	if err := a.Logs(t.Context(), "train", q, func(l api.LogLine) error {
		got = append(got, fmt.Sprintf("%s g%d r%d %s%s", l.Node, l.Generation, l.Rank, l.Text, l.Notice))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLogsAreMergedOverNodes(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "a\nb\n")
	n2.write(t, "train-aaaaaa", 1, 2, "c\n")
	n2.write(t, "train-aaaaaa", 1, 3, "d, without an end")
	store.plan(t, "train-aaaaaa", 2, "n2")
	n2.write(t, "train-aaaaaa", 2, 0, "e\n")
	want := []string{"n1 g1 r0 a", "n1 g1 r0 b", "n2 g1 r2 c", "n2 g1 r3 d, without an end", "n2 g2 r0 e"}
	for _, from := range []*agent{n1, n2} {
		var got []string
		eventually(t, "generation 2 shows", func() bool { got = texts(t, from, api.LogQuery{}); return len(got) == len(want) })
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	rank := 3
	if got := texts(t, n1, api.LogQuery{Rank: &rank}); !slices.Equal(got, want[3:4]) {
		t.Errorf("rank 3: %q", got)
	}
	if got := texts(t, n1, api.LogQuery{Generation: 2}); !slices.Equal(got, want[4:]) {
		t.Errorf("generation 2: %q", got)
	}
	err := n1.Logs(t.Context(), "train", api.LogQuery{Generation: 9}, func(api.LogLine) error { return nil })
	if api.CodeOf(err) != api.NotFound || !strings.Contains(err.Error(), "2 so far") {
		t.Errorf("generation 9: %v", err)
	}
}

func TestLogsOfALostNodeAreMissedAloud(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Failed, Generation: 1}))
	n2.stop()
	for range 2 { // once its agent is gone, then its alive key as well
		got := texts(t, n1, api.LogQuery{})
		if len(got) != 2 || got[0] != "n1 g1 r0 a" || !strings.Contains(got[1], "node n2: what ranks 2 to 3 wrote in generation 1 is missing") {
			t.Errorf("got %q", got)
		}
		store.put(t, record.Delete(record.AliveKey("n2")))
	}
}

func TestFollowGoesOverGenerationsToTheEnd(t *testing.T) {
	store, n1, n2 := cluster2(t)
	path := n1.write(t, "train-aaaaaa", 1, 0, "one\nha")
	lines := make(chan string)
	done := make(chan error, 1)
	go func() {
		done <- n2.Logs(t.Context(), "train", api.LogQuery{Follow: true}, func(l api.LogLine) error {
			lines <- fmt.Sprintf("g%d r%d %s%s", l.Generation, l.Rank, l.Text, l.Notice)
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		if got := <-lines; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	expect("g1 r0 one")
	appendTo(t, path, "lf\n")
	expect("g1 r0 half")
	// Rotated, with lines on both sides.
	appendTo(t, path, "last of the old file\n")
	rotate(t, path, 1)
	appendTo(t, path, "first of the new file\n")
	expect("g1 r0 last of the old file")
	expect("g1 r0 first of the new file")
	n2.write(t, "train-aaaaaa", 1, 2, "from the other node\n")
	expect("g1 r2 from the other node")
	n2.write(t, "train-aaaaaa", 1, 2, "unfinished")
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		store.put(t, record.Put(record.AckKey(n, "train-aaaaaa", 1, record.AckStopped), record.Stopped{}))
	}
	expect("g1 r2 unfinished")
	store.plan(t, "train-aaaaaa", 2, "n2")
	n2.write(t, "train-aaaaaa", 2, 0, "again\n")
	expect("g2 r0 again")
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Succeeded, Generation: 2}))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A node that is asked a moment before its own watch tells it of the generation
// has not ended its part: its lines are to come.
func TestAGenerationNotHeardOfHasNotEnded(t *testing.T) {
	store, n1, n2 := cluster2(t)
	for _, n := range []*agent{n1, n2} {
		eventually(t, "generation 1 is known", func() bool {
			s, err := n.Job(t.Context(), "train")
			return err == nil && s.Generation == 1
		})
		if n.server.local.ended("train-aaaaaa", 1) || n.server.local.ended("train-aaaaaa", 2) {
			t.Errorf("%s counts as ended: generation 1 %t, 2 %t", n.server.cfg.Node,
				n.server.local.ended("train-aaaaaa", 1), n.server.local.ended("train-aaaaaa", 2))
		}
	}
	store.plan(t, "train-aaaaaa", 2, "n2")
	eventually(t, "generation 1 has ended", func() bool {
		return n1.server.local.ended("train-aaaaaa", 1) && n2.server.local.ended("train-aaaaaa", 1)
	})
	if !n1.server.local.ended("train-aaaaaa", 2) || n2.server.local.ended("train-aaaaaa", 2) {
		t.Error("n2 alone has a part of generation 2")
	}
}

func TestFollowDoesNotWaitForAFrozenNode(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	// n2 never says that it stopped; the job is over all the same.
	_ = n2
	store.put(t, record.Put(record.AckKey("n1", "train-aaaaaa", 1, record.AckStopped), record.Stopped{}))
	got := make(chan string, 10)
	done := make(chan error, 1)
	go func() {
		done <- n1.Logs(t.Context(), "train", api.LogQuery{Follow: true}, func(l api.LogLine) error { got <- l.Text; return nil })
	}()
	if text := <-got; text != "a" {
		t.Errorf("got %q", text)
	}
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Failed, Generation: 1}))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLogsOfAnAgentThatEndsAreNoEnd(t *testing.T) {
	_, n1, _ := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	err := n1.Logs(t.Context(), "train", api.LogQuery{Follow: true}, func(api.LogLine) error { go n1.stop(); return nil })
	if !errors.Is(err, api.ErrNoAgent) {
		t.Errorf("got %v, want %v", err, api.ErrNoAgent)
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	_, n1, _ := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "a\n")
	ctx, cancel := context.WithCancel(t.Context())
	err := n1.Logs(ctx, "train", api.LogQuery{Follow: true}, func(api.LogLine) error { cancel(); return nil })
	if err == nil {
		t.Error("following ended by itself")
	}
	n1.stop() // hangs if the server still follows
}

func TestLogsAreForTheOwnerAndRoot(t *testing.T) {
	store := newFakeStore()
	owner := cluster.Owner{UID: 77, User: "owner"}
	store.admit(t, "train-aaaaaa", owner, record.State{})
	store.plan(t, "train-aaaaaa", 1, "n1")
	thief := serve(t, store, "n1", &stranger)
	nothing := func(api.LogLine) error { return nil }
	if err := thief.Logs(t.Context(), "train", api.LogQuery{}, nothing); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a stranger: %v", err)
	}
	q := api.NodeLogQuery{Job: "train-aaaaaa", Query: api.LogQuery{Generation: 1}, Who: owner}
	if err := thief.server.logs.agents.Logs(t.Context(), api.Agent{Addr: "unix:" + thief.socket}, q, nothing); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a stranger who says that he is the owner: %v", err)
	}
	mine := serve(t, store, "n1", &owner)
	if err := mine.Logs(t.Context(), "train", api.LogQuery{}, nothing); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if err := mine.server.logs.agents.Logs(t.Context(), api.Agent{Addr: "unix:" + mine.socket}, api.NodeLogQuery{Job: "../../etc", Query: api.LogQuery{Generation: 1}, Who: owner}, nothing); err == nil {
		t.Error("a path for a job")
	}
}

// rotate does with a log what its writer does: number is that of the file that is full.
func rotate(t *testing.T, path string, number int) {
	t.Helper()
	if err := os.Rename(path, fmt.Sprintf("%s.%d", path, number)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(fmt.Sprintf("%s.%d", path, number-1)); err != nil && number > 1 {
		t.Fatal(err)
	}
}
