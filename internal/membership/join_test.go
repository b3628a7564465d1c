package membership

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestKnownAddressesAreJoined(t *testing.T) {
	a := startNode(t, "a", 1)
	b := startNode(t, "b", 2, func(n *node) {
		n.Known = func() []string { return []string{a.Addr()} }
	})
	awaitMembers(t, "a b", a, b)
}

func TestPartitionHeals(t *testing.T) {
	var wires network
	var all []*Gossip
	var addrs []string
	known := make(chan []string, 1)
	rejoining := func(n *node) {
		n.Known = func() []string {
			list := <-known
			known <- list
			return list
		}
		n.rejoin = func(bool) time.Duration { return 100 * time.Millisecond }
	}
	known <- nil
	for i, id := range []string{"a", "b", "c", "d"} {
		g := startNode(t, id, i+1, wires.plug(t), rejoining)
		all, addrs = append(all, g), append(addrs, g.Addr())
	}
	<-known
	known <- addrs
	awaitMembers(t, "a b c d", all...)

	wires.cut(all[:2], all[2:])
	awaitMembers(t, "a b", all[:2]...)
	awaitMembers(t, "c d", all[2:]...)
	awaitEvent(t, all[0], Failed, "d")

	wires.cut(all)
	awaitMembers(t, "a b c d", all...)
	awaitEvent(t, all[0], Joined, "d")
}

func TestNameConflict(t *testing.T) {
	a, b := startNode(t, "a", 1), startNode(t, "b", 2)
	join(t, b, a)
	awaitMembers(t, "a b", a, b)

	second := startNode(t, "b", 3)
	_, err := second.Join(t.Context(), []string{a.Addr()})
	if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), b.Addr()) {
		t.Errorf("join under a taken name: %v, want ErrNameTaken naming %s", err, b.Addr())
	}
	if e := last(awaitEvent(t, second, Conflict, "b")); e.Member.Addr != second.Addr() || e.Other != b.Addr() {
		t.Errorf("the second b saw %+v", e)
	}
	if e := last(awaitEvent(t, a, Conflict, "b")); e.Member.Addr != b.Addr() || e.Other != second.Addr() {
		t.Errorf("a saw %+v", e)
	}
	if got := memberNames(second); got != "b" {
		t.Errorf("the second b knows %q, want itself alone", got)
	}
	awaitMembers(t, "a b", a, b)
	if m := a.roster.member("b"); m.Addr != b.Addr() {
		t.Errorf("a takes %+v for b", m)
	}

	// The first b learns of it too when the second asks it directly.
	if _, err := second.Join(t.Context(), []string{b.Addr()}); !errors.Is(err, ErrNameTaken) {
		t.Errorf("join at its namesake: %v, want ErrNameTaken", err)
	}
	if e := last(awaitEvent(t, b, Conflict, "b")); e.Other != second.Addr() {
		t.Errorf("b saw %+v", e)
	}
}

func TestDeadNameCanMove(t *testing.T) {
	a, b := startNode(t, "a", 1), startNode(t, "b", 2)
	join(t, b, a)
	awaitEvent(t, a, Joined, "b")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, a, Failed, "b")

	moved := startNode(t, "b", 3)
	join(t, moved, a)
	if e := last(awaitEvent(t, a, Joined, "b")); e.Member.Addr != moved.Addr() {
		t.Errorf("b is back at %s, want %s", e.Member.Addr, moved.Addr())
	}
	awaitMembers(t, "a b", a, moved)
}

func TestJoinErrors(t *testing.T) {
	a := startNode(t, "a", 1)
	for addr, want := range map[string]string{
		"127.0.0.1":       "host:port",
		"127.0.0.1:http":  "the port is not a number",
		"127.0.0.1:1":     "refused",
		"no.invalid:7946": "join no.invalid:7946",
	} {
		n, err := a.Join(t.Context(), []string{addr})
		if n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("join %s: reached %d, %v; want %q", addr, n, err, want)
		}
	}
	b := startNode(t, "b", 2)
	if n, err := a.Join(t.Context(), []string{"127.0.0.1:1", b.Addr()}); n != 1 || err != nil {
		t.Errorf("one of two: reached %d, %v", n, err)
	}
}

func TestRejoinDelay(t *testing.T) {
	for range 100 {
		if d := rejoinDelay(false); d < rejoinSoonest || d >= rejoinLatest {
			t.Fatalf("delay %s is outside [%s, %s)", d, rejoinSoonest, rejoinLatest)
		}
	}
	if d := rejoinDelay(true); d != rejoinAlone {
		t.Errorf("delay when alone: %s, want %s", d, rejoinAlone)
	}
}

func TestMissingSkipsMembersAndRepeats(t *testing.T) {
	a := startNode(t, "a", 1)
	got := a.missing([]string{a.Addr(), "127.0.0.7:1", "127.0.0.7:1"})
	if len(got) != 1 || got[0] != "127.0.0.7:1" {
		t.Errorf("missing %v, want the one address that is not a member's", got)
	}
}
