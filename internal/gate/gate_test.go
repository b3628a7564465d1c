package gate_test

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/internal/gate"
)

// patience is how long a test waits for any outcome before it fails.
const patience = 2 * time.Minute

// knock connects and says who it is; in reports whether it was let in.
func knock(t *testing.T, path, name string) (c net.Conn, in bool) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err = fmt.Fprintf(c, "%-8s", name); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	word := make([]byte, 2)
	if _, err = io.ReadFull(c, word); err != nil {
		t.Fatal(err)
	}
	return c, string(word) == "ok"
}

// A peer that has all that it may have keeps no other out, nor one that is closed
// itself; and the last places are for those who need them.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	plain, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln := gate.Listen(plain, gate.Config{
		Total: 32, // of which two are the reserve
		Of: func(c net.Conn) gate.Peer {
			name := make([]byte, 8)
			if _, err := io.ReadFull(c, name); err != nil {
				return gate.Peer{}
			}
			return gate.Peer{Name: string(name[0]), Most: 10, Reserve: name[0] == 'r'}
		},
		Refuse: func(c net.Conn, _ gate.Peer) { _, _ = io.WriteString(c, "no") },
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "ok")
			go func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-served })
	enter := func(name string, n, want int) (last net.Conn) {
		t.Helper()
		in := 0
		for range n {
			if c, ok := knock(t, path, name); ok {
				in++
				last = c
			}
		}
		if in != want {
			t.Errorf("of %d connections of %s %d were let in, want %d", n, name, in, want)
		}
		return last
	}
	enter("a", 12, 10)
	enter("b", 10, 10)
	c := enter("c", 11, 10)
	enter("d", 1, 0) // 30 are open
	enter("r", 3, 2)
	_ = c.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, in := knock(t, path, "r"); in { // the place of c, in the reserve now
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a connection that was closed still counts")
		}
	}
	enter("a", 1, 0)
}

// What is taken is taken whole or not at all, and is given back once.
func TestATakeIsWhole(t *testing.T) {
	t.Parallel()
	b := gate.NewBound(20, 4)
	ann, bob, root := gate.Peer{Name: "ann", Most: 10}, gate.Peer{Name: "bob", Most: 10}, gate.Peer{Name: "root", Reserve: true}
	take := func(p gate.Peer, n int, want bool) func() {
		t.Helper()
		leave, ok := b.Take(p, n)
		if ok != want {
			t.Fatalf("%d of %s: %t, want %t", n, p.Name, ok, want)
		}
		return leave
	}
	take(ann, 11, false)
	six := take(ann, 6, true)
	take(ann, 5, false)
	take(ann, 4, true)
	take(bob, 7, false) // the last four are the reserve
	take(bob, 6, true)
	take(root, 5, false)
	take(root, 4, true)
	six()
	six()
	take(ann, 3, false) // what root has takes room of others, too
	take(ann, 2, true)
	take(root, 5, false)
	take(root, 4, true)
}
