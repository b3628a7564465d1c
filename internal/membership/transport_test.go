package membership

import (
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"
)

// dialFrom opens streams from an address of this machine; ended counts those that
// the other end has closed.
type dialFrom struct {
	t     *testing.T
	from  string
	ended atomic.Int32
	conns []net.Conn
}

func (d *dialFrom) open(to string, n int) {
	d.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(d.from)}, Timeout: patience}
	for range n {
		c, err := dialer.DialContext(d.t.Context(), "tcp", to)
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { _ = c.Close() })
		d.conns = append(d.conns, c)
		go func() {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				d.ended.Add(1)
			}
		}()
	}
}

func (d *dialFrom) awaitEnded(want int32) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); d.ended.Load() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("of the streams from %s %d were closed, want %d", d.from, d.ended.Load(), want)
		}
	}
}

// Each stream occupies a goroutine and memory: one address leaves room for the
// others, and all together have a bound.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	g := startNode(t, "a", 70, func(n *node) {
		n.memberlist = func(c *memberlist.Config) { c.TCPTimeout = 10 * patience } // so that only the bound closes one
	})
	one, two, three := &dialFrom{t: t, from: "127.0.0.71"}, &dialFrom{t: t, from: "127.0.0.72"}, &dialFrom{t: t, from: "127.0.0.73"}
	one.open(g.Addr(), maxStreamsOfOne+3)
	one.awaitEnded(3)
	two.open(g.Addr(), maxStreamsOfOne)
	three.open(g.Addr(), 2) // all places are taken
	three.awaitEnded(2)
	one.open(g.Addr(), 1)
	one.awaitEnded(4) // streams are taken in order: all others of its address have been judged before
	two.awaitEnded(0)
	for _, c := range one.conns[:maxStreamsOfOne] {
		_ = c.Close()
	}
	peer := startNode(t, "b", 74)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // until their places are free
		_, err := peer.Join(t.Context(), []string{g.Addr()})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("streams that were closed still count: %v", err)
		}
	}
}

// If memberlist's start fails it reads neither streams nor packets, and what has
// arrived must not keep the transport from ending.
func TestAFailedStartEndsItsTransport(t *testing.T) {
	t.Parallel()
	conf := &memberlist.Config{BindAddr: "127.0.0.75", Logger: newLogger(zerolog.Nop())}
	tr, err := newTransport(conf, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	to := net.JoinHostPort(conf.BindAddr, strconv.Itoa(conf.BindPort))
	(&dialFrom{t: t, from: "127.0.0.76"}).open(to, 5)
	udp, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for range 5 {
		if _, err = udp.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	<-tr.PacketCh()
	time.Sleep(200 * time.Millisecond) // in which the listeners get as far as to wait for a reader; sooner proves less
	done := make(chan error, 1)
	go func() { done <- tr.Shutdown() }()
	select {
	case err = <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it waits for a reader")
	}
	_, err = start(Config{Node: "a", Bind: to, AllowPlain: true}, tuning{
		rejoin: rejoinDelay, memberlist: func(c *memberlist.Config) { c.AdvertiseAddr = "no address" },
	})
	if err == nil || !strings.Contains(err.Error(), "no address") {
		t.Fatalf("started: %v", err)
	}
	again, err := Start(Config{Node: "a", Bind: to, AllowPlain: true})
	if err != nil {
		t.Fatalf("the failed start has kept its port: %v", err)
	}
	if err = again.Close(); err != nil {
		t.Error(err)
	}
}
