package lead_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// notebook is an observer that writes everything down.
type notebook struct {
	mu        sync.Mutex
	terms     []bool
	steps     int
	decisions int
	rescales  []record.Rescale
}

func (n *notebook) note(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *notebook) Leads(leads bool) { n.note(func() { n.terms = append(n.terms, leads) }) }

func (n *notebook) Stepped(time.Duration) { n.note(func() { n.steps++ }) }

func (n *notebook) Decided(time.Duration, error) { n.note(func() { n.decisions++ }) }

func (n *notebook) Rescaled(r record.Rescale) {
	n.note(func() { n.rescales = append(n.rescales, r) })
}

// What a leader does is passed to its observer, and what it sees can be seen
// while it leads, and not before or after.
func TestLeaderIsObserved(t *testing.T) {
	w := newWorld(t)
	first := w.candidate("c1")
	w.node("n1", 2)
	w.submit("j-aaaaaa", 2, 2)
	w.phase("j-aaaaaa", cluster.Running)
	second := w.candidate("c2")
	if _, ok := second.window.Census(t.Context()); ok {
		t.Error("who waits shows what it cannot know")
	}
	for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		c, ok := first.window.Census(t.Context())
		if ok && c.Jobs[cluster.Running] == 1 && c.Devices[record.DeviceInUse] == 2 && len(c.Active) == 1 && c.Active[0].Workers == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the leader shows %+v, %v", c, ok)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	first.window.Census(gone) // returns, with or without a leader
	w.end(first)
	if _, ok := first.window.Census(t.Context()); ok {
		t.Error("who has resigned goes on showing")
	}
	first.seen.note(func() {
		n := first.seen
		// On a machine with too much to do there may be more terms than one; each begins, and then ends.
		inTurn := len(n.terms) > 0 && len(n.terms)%2 == 0
		for i, leads := range n.terms {
			inTurn = inTurn && leads == (i%2 == 0)
		}
		if !inTurn || n.steps == 0 || n.decisions == 0 || len(n.rescales) != 1 || n.rescales[0].To != 2 {
			t.Errorf("told was: terms %v, %d steps, %d decisions, rescales %+v", n.terms, n.steps, n.decisions, n.rescales)
		}
	})
}
