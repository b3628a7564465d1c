package membership

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestJoinMembersUpdate(t *testing.T) {
	b := startNode(t, "b", 2)
	a := startNode(t, "a", 1)
	join(t, b, a)

	e := last(awaitEvent(t, a, Joined, "b"))
	want := Member{Node: "b", Addr: b.Addr(), Meta: Meta{Incarnation: "1", API: "b:7070"}}
	if e.Member != want {
		t.Errorf("joined %+v, want %+v", e.Member, want)
	}
	awaitEvent(t, b, Joined, "a")
	awaitMembers(t, "a b", a, b)

	if err := b.UpdateMeta(Meta{Incarnation: "1", API: "b:7070", EtcdOK: true}); err != nil {
		t.Fatal(err)
	}
	want.Meta.EtcdOK = true
	if e := last(awaitEvent(t, a, Updated, "b")); e.Member != want {
		t.Errorf("updated %+v, want %+v", e.Member, want)
	}
	for _, m := range b.Members() {
		if m.Node == "b" && m != want {
			t.Errorf("b says of itself %+v, want %+v", m, want)
		}
	}
}

func TestLeaveIsNoFailure(t *testing.T) {
	a, b, c := startNode(t, "a", 1), startNode(t, "b", 2), startNode(t, "c", 3)
	join(t, b, a)
	join(t, c, a)
	awaitMembers(t, "a b c", a, b, c)
	if err := b.Leave(); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, a, Left, "b")
	awaitEvent(t, c, Left, "b")
	awaitMembers(t, "a c", a, c)

	if err := b.Leave(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Leave: %v, want ErrClosed", err)
	}
	if err := b.UpdateMeta(Meta{Incarnation: "2"}); !errors.Is(err, ErrClosed) {
		t.Errorf("UpdateMeta after Leave: %v, want ErrClosed", err)
	}
}

func TestLeaveAlone(t *testing.T) {
	if err := startNode(t, "a", 1).Leave(); err != nil {
		t.Fatal(err)
	}
}

func TestSilenceIsFailure(t *testing.T) {
	a, b := startNode(t, "a", 1), startNode(t, "b", 2)
	join(t, b, a)
	awaitEvent(t, a, Joined, "b")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range awaitEvent(t, a, Failed, "b") {
		if e.Kind == Left {
			t.Errorf("%+v: b said nothing", e)
		}
	}
	awaitMembers(t, "a", a)
}

func TestRestartShowsInMetadata(t *testing.T) {
	a, b := startNode(t, "a", 1), startNode(t, "b", 2)
	join(t, b, a)
	awaitMembers(t, "a b", a, b)
	addr := b.Addr()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := startNode(t, "b", 2, func(n *node) {
		n.Bind = addr
		n.Meta.Incarnation = "2"
	})
	join(t, again, a)
	// Updated when the restart was faster than the detector, Joined when not.
	deadline := time.Now().Add(patience)
	for a.roster.member("b").Meta.Incarnation != "2" {
		if time.Now().After(deadline) {
			t.Fatalf("a still knows %+v", a.Members())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWrongKey(t *testing.T) {
	a := startNode(t, "a", 1)
	stranger := startNode(t, "b", 2, func(n *node) { n.Key = bytes.Repeat([]byte("x"), 32) })
	plain := startNode(t, "c", 3, func(n *node) { n.Key, n.AllowPlain = nil, true })
	for _, g := range []*Gossip{stranger, plain} {
		if n, err := g.Join(t.Context(), []string{a.Addr()}); err == nil || n != 0 {
			t.Errorf("%s joined %d with the wrong key: %v", g.roster.self, n, err)
		}
	}
	if got := memberNames(a); got != "a" {
		t.Errorf("a knows %q, want itself alone", got)
	}
}

func TestConfigNamesAllFaults(t *testing.T) {
	_, err := Start(Config{Node: "a b", Bind: "7946", Key: []byte("short")})
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{`name "a b"`, `bind "7946"`, "key has 5 bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	if _, err := Start(Config{Node: "a", Bind: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "key is missing") {
		t.Errorf("no key: %v", err)
	}
	if _, err := Start(Config{Node: "a", Bind: "[::]:0", AllowPlain: true}); err == nil {
		t.Error("an address that no peer can use was accepted")
	}
	long := Meta{API: strings.Repeat("x", MaxMetaBytes)}
	if _, err := Start(Config{Node: "a", Bind: "127.0.0.1:0", AllowPlain: true, Meta: long}); err == nil {
		t.Error("oversized metadata was accepted")
	}
}

// A peer that takes the connection and says nothing holds up neither for ever.
func TestCloseDuringJoin(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()

	g := startNode(t, "a", 1)
	joined := make(chan error, 1)
	go func() {
		_, failure := g.Join(t.Context(), []string{mute.Addr().String()})
		joined <- failure
	}()
	conn, err := mute.Accept() // the join is under way
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-joined:
		if err == nil {
			t.Error("joined a mute peer")
		}
	case <-time.After(patience):
		t.Error("Close returned, the join never did")
	}
}

func TestAfterClose(t *testing.T) {
	a := startNode(t, "a", 1)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Join(t.Context(), []string{"127.0.0.1:1"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Join: %v, want ErrClosed", err)
	}
	if err := a.UpdateMeta(Meta{EtcdOK: true}); !errors.Is(err, ErrClosed) {
		t.Errorf("UpdateMeta: %v, want ErrClosed", err)
	}
	if err := a.Leave(); !errors.Is(err, ErrClosed) {
		t.Errorf("Leave: %v, want ErrClosed", err)
	}
	for e := range a.Events() {
		t.Errorf("event %+v of a node that was alone", e)
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
