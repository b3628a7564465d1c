package etcdtest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards connections to an etcd. While it is frozen, bytes wait as they do
// for a process that is stopped.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	thaw   sync.Cond
	frozen bool
	held   int // directions of connections that have bytes to forward and wait for the thaw
	conns  []net.Conn
}

// StartProxy starts a proxy to an address. It ends with the test.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l}
	p.thaw.L = &p.mu
	p.wg.Go(func() { p.accept(to) })
	t.Cleanup(func() {
		_ = l.Close()
		p.Freeze(false)
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// Endpoint returns the proxy's address.
func (p *Proxy) Endpoint() string { return p.listener.Addr().String() }

// Freeze stops forwarding, or goes on with it.
func (p *Proxy) Freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	p.thaw.Broadcast()
}

// AwaitHeld waits until the frozen proxy holds bytes back.
func (p *Proxy) AwaitHeld(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(Soon); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held > 0 {
			return
		}
	}
	t.Fatalf("nothing came within %v", Soon)
}

func (p *Proxy) accept(to string) {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := (&net.Dialer{}).Dial("tcp", to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.wg.Go(func() { p.forward(in, out) })
		p.wg.Go(func() { p.forward(out, in) })
	}
}

func (p *Proxy) forward(from io.Reader, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.frozen {
			p.held++
			p.thaw.Wait()
			p.held--
		}
		p.mu.Unlock()
		if _, writeErr := to.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}
