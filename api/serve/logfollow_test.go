package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// again starts another agent for the node, in the place of one that ended, with the same logs.
func (a *agent) again(t *testing.T, node cluster.NodeID) *agent {
	t.Helper()
	b := serve(t, a.store, node, nil)
	b.server.cfg.LogDir, b.logs = a.logs, a.logs
	a.store.put(t, record.Put(record.AliveKey(node), record.Alive{API: "unix:" + b.socket}))
	return b
}

// followed is what following a job's logs tells; of train where no job is named.
type followed struct {
	t     *testing.T
	lines chan api.LogLine
	done  chan error
	after map[int]api.Position
}

func followLogs(ctx context.Context, t *testing.T, a *agent, q api.LogQuery, job ...string) *followed {
	q.Follow = true
	s := &followed{t, make(chan api.LogLine, 100), make(chan error, 1), maps.Clone(q.After)}
	if s.after == nil {
		s.after = map[int]api.Position{}
	}
	go func() {
		s.done <- a.Logs(ctx, append(job, "train")[0], q, func(l api.LogLine) error { s.lines <- l; return nil })
	}()
	return s
}

// next is the next line.
func (s *followed) next(want string) (l api.LogLine) {
	s.t.Helper()
	select {
	case l = <-s.lines:
	case err := <-s.done:
		s.done <- err // for those who ask later
		select {
		case l = <-s.lines: // it came before the end
		default:
			s.t.Fatalf("it ended with %v, want %q", err, want)
		}
	case <-time.After(patience):
		s.t.Fatalf("nothing came, want %q", want)
	}
	if l.After != nil {
		s.after[l.Rank] = *l.After
	}
	return l
}

// expect reads lines, past those that only say where a reading begins.
func (s *followed) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		l := s.next(w)
		for ; l.Begin; l = s.next(w) {
			s.expectBegin(l)
		}
		begin, more := strings.CutSuffix(w, "…")
		if got := fmt.Sprintf("g%d r%d %s%s", l.Generation, l.Rank, l.Text, l.Notice); got != w && (!more || !strings.HasPrefix(got, begin)) {
			s.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

// expectBegin checks that lines only say where a reading begins.
func (s *followed) expectBegin(lines ...api.LogLine) {
	s.t.Helper()
	for _, l := range lines {
		if !l.Begin || l.Text+l.Notice != "" || (l.After == nil) != (l.Rank < 0) {
			s.t.Fatalf("got %+v, want only where the reading begins", l)
		}
	}
}

// Tail counts for the generation that was the newest when following began: of
// each one that a rescale starts meanwhile every line comes.
func TestTailIsOfOneGeneration(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "before\n")
	s := followLogs(t.Context(), t, n1, api.LogQuery{Tail: new(0)})
	for range 5 { // the generation, and four ranks
		s.expectBegin(s.next("where it begins"))
	}
	n1.write(t, "train-aaaaaa", 1, 0, "meanwhile\n")
	s.expect("g1 r0 meanwhile")
	n2.write(t, "train-aaaaaa", 2, 0, "first\nsecond\n")
	store.plan(t, "train-aaaaaa", 2, "n2")
	s.expect("g2 r0 first", "g2 r0 second")

	store.admit(t, "later-bbbbbb", self(), record.State{})
	eventually(t, "the job is known", func() bool { _, err := n1.Job(t.Context(), "later"); return err == nil })
	s = followLogs(t.Context(), t, n1, api.LogQuery{Tail: new(0)}, "later")
	if l := s.next("where it begins"); !l.Begin || l.Rank != -1 || l.Generation != 0 {
		t.Errorf("before the first generation it says %+v", l)
	}
	n1.write(t, "later-bbbbbb", 1, 0, "first\n")
	store.plan(t, "later-bbbbbb", 1, "n1")
	s.expect("g1 r0 first")
}

// Tail is applied once: after a restart of an agent, of ranks that had written
// nothing when following began, or nothing since, all comes that they wrote meanwhile.
func TestTailIsAppliedOnce(t *testing.T) {
	_, n1, n2 := cluster2(t)
	path := n2.write(t, "train-aaaaaa", 1, 2, "before\n")
	s := followLogs(t.Context(), t, n1, api.LogQuery{Tail: new(0)})
	for range 5 { // the generation, and four ranks
		s.expectBegin(s.next("where it begins"))
	}
	n2.stop()
	s.expect("g1 r-1 node n2: its agent does not answer; …")
	appendTo(t, path, "a\nb\n")
	n2.write(t, "train-aaaaaa", 1, 3, "c\nd\n")
	n2 = n2.again(t, "n2")
	s.expect("g1 r2 a", "g1 r2 b", "g1 r3 c", "g1 r3 d")
	n1.stop() // and of the agent that answers
	if err := <-s.done; !errors.Is(err, api.ErrNoAgent) {
		t.Fatal(err)
	}
	n1.write(t, "train-aaaaaa", 1, 0, "e\nf\n")
	s = followLogs(t.Context(), t, n1.again(t, "n1"), api.LogQuery{Tail: new(0), From: 1, After: s.after})
	s.expect("g1 r0 e", "g1 r0 f")
	n2.write(t, "train-aaaaaa", 1, 3, "g\n")
	s.expect("g1 r3 g")
}

// When another node's agent restarts, its ranks' lines go on where they were.
func TestFollowGoesOnWhenANodesAgentRestarts(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "zero\n")
	s := followLogs(t.Context(), t, n1, api.LogQuery{})
	s.expect("g1 r0 zero")
	path := n2.write(t, "train-aaaaaa", 1, 3, "one\n")
	s.expect("g1 r3 one")
	n2.stop()
	s.expect("g1 r-1 node n2: its agent does not answer; what ranks 2 to 3 wrote meanwhile comes once it does: …")
	appendTo(t, path, "two\n")
	rotate(t, path, 1)
	appendTo(t, path, "three\n")
	n2 = n2.again(t, "n2")
	s.expect("g1 r3 two", "g1 r3 three")
	n1.write(t, "train-aaaaaa", 1, 0, "still here\n")
	s.expect("g1 r0 still here")
	n2.stop() // and once more, this time for good
	s.expect("g1 r-1 node n2: its agent does not answer; …")
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Failed, Generation: 1}))
	s.expect("g1 r-1 node n2: the last of what ranks 2 to 3 wrote in generation 1 is missing here, if there is more…")
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// When the agent that answers restarts, its caller goes on where it was: after rotations, too.
func TestFollowGoesOnAfterPositions(t *testing.T) {
	store, n1, n2 := cluster2(t)
	path := n1.write(t, "train-aaaaaa", 1, 0, "one\ntwo\n")
	n2.write(t, "train-aaaaaa", 1, 2, "other\n")
	s := followLogs(t.Context(), t, n1, api.LogQuery{})
	got := []string{}
	for range 3 {
		l := <-s.lines
		s.after[l.Rank] = *l.After
		got = append(got, l.Text)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"one", "other", "two"}) {
		t.Fatalf("got %q", got)
	}
	n1.stop()
	if err := <-s.done; !errors.Is(err, api.ErrNoAgent) {
		t.Fatalf("the agent ended, and following with %v", err)
	}
	rotate(t, path, 1)
	appendTo(t, path, "three\n")
	n1 = n1.again(t, "n1")
	s = followLogs(t.Context(), t, n1, api.LogQuery{From: 1, After: s.after})
	s.expect("g1 r0 three")
	n2.write(t, "train-aaaaaa", 1, 2, "more\n")
	s.expect("g1 r2 more")
	for _, n := range []cluster.NodeID{"n1", "n2"} {
		store.put(t, record.Put(record.AckKey(n, "train-aaaaaa", 1, record.AckStopped), record.Stopped{}))
	}
	store.plan(t, "train-aaaaaa", 2, "n2")
	n2.write(t, "train-aaaaaa", 2, 0, "again\n")
	s.expect("g2 r0 again")
	// A new caller that has seen generation 1 whole.
	s = followLogs(t.Context(), t, n1, api.LogQuery{From: 2})
	s.expect("g2 r0 again")
}

func TestTailIsOfTheNewestGeneration(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n1.write(t, "train-aaaaaa", 1, 0, "old\n")
	store.plan(t, "train-aaaaaa", 2, "n1", "n2")
	eventually(t, "generation 2 is known", func() bool { s, err := n1.Job(t.Context(), "train"); return err == nil && s.Generation == 2 })
	n1.write(t, "train-aaaaaa", 2, 0, "a\nb\nc\n")
	n2.write(t, "train-aaaaaa", 2, 2, "x\ny\n")
	two, one := 2, 1
	if got, want := texts(t, n1, api.LogQuery{Tail: &two}), []string{"n1 g2 r0 b", "n1 g2 r0 c", "n2 g2 r2 x", "n2 g2 r2 y"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := texts(t, n1, api.LogQuery{Tail: &one, Generation: 1}), []string{"n1 g1 r0 old"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	rank := 0
	s := followLogs(t.Context(), t, n1, api.LogQuery{Tail: &one, Rank: &rank})
	s.expect("g2 r0 c")
	n1.write(t, "train-aaaaaa", 2, 0, "d\ne\n")
	s.expect("g2 r0 d", "g2 r0 e")
}

// A rank that the job never had is an error, not an empty log.
func TestLogsOfARankThatIsNone(t *testing.T) {
	store, n1, _ := cluster2(t)
	store.put(t, record.Put(record.RescaleKey("train-aaaaaa", 2), record.Rescale{Generation: 2, To: 8}))
	eventually(t, "generation 1 is known", func() bool { s, err := n1.Job(t.Context(), "train"); return err == nil && len(s.Rescales) == 1 })
	for _, c := range []struct {
		query api.LogQuery
		want  string // empty: no error
	}{
		{api.LogQuery{Rank: new(3), Generation: 1}, ""},
		{api.LogQuery{Rank: new(4), Generation: 1}, "rank 4 of job train-aaaaaa: generation 1 had ranks 0 to 3"},
		{api.LogQuery{Rank: new(7)}, ""},
		{api.LogQuery{Rank: new(8)}, "rank 8 of job train-aaaaaa: it has had ranks 0 to 7 so far"},
		{api.LogQuery{Rank: new(99), Follow: true}, "rank 99 of job train-aaaaaa: it has had ranks 0 to 7 so far"},
	} {
		err := n1.Logs(t.Context(), "train", c.query, func(api.LogLine) error { return nil })
		if c.want == "" && err != nil || c.want != "" && (api.CodeOf(err) != api.NotFound || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: got %v, want %q", c.query, err, c.want)
		}
	}
	store.admit(t, "train-aaaaaa", self(), record.State{})
	store.put(t, record.Delete(record.PlanKey("train-aaaaaa", 1)), record.Delete(record.RescaleKey("train-aaaaaa", 2)))
	eventually(t, "the job has had no workers", func() bool {
		err := n1.Logs(t.Context(), "train", api.LogQuery{Rank: new(0)}, func(api.LogLine) error { return nil })
		return err != nil && strings.Contains(err.Error(), "has not had workers yet")
	})
}
