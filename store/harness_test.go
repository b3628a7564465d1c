package store_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// soon bounds what is to happen at once. Machines under load are slow; nothing waits this long when all is well.
const soon = 30 * time.Second

// journal collects log lines.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func after(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), d)
}

func embedded(dir string) store.EmbeddedConfig {
	return store.EmbeddedConfig{DataDir: dir, Name: "test", NoFsync: true}
}

// startServer starts an etcd that ends with the test, after the clients.
func startServer(t *testing.T, cfg store.EmbeddedConfig) *store.Server {
	t.Helper()
	server, err := store.StartEmbedded(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(t, server) })
	return server
}

func stopServer(t *testing.T, server *store.Server) {
	t.Helper()
	ctx, cancel := after(t, soon)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		t.Error(err)
	}
}

// open connects to an endpoint. Only what a watch does in silence is made
// faster; with other times shorter than in earnest, a loaded machine is a fault.
func open(t *testing.T, endpoint string) *store.Store {
	t.Helper()
	return openWith(t, store.Config{Endpoints: []string{endpoint}, DialTimeout: soon, StallAfter: time.Second})
}

// openHasty connects to an endpoint that is to fail: calls give up after a second.
func openHasty(t *testing.T, endpoint string) *store.Store {
	t.Helper()
	return openWith(t, store.Config{Endpoints: []string{endpoint}, DialTimeout: soon, CallTimeout: time.Second, StallAfter: time.Second})
}

func openWith(t *testing.T, cfg store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := s.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	return s
}

// etcd is an etcd with one client.
func etcd(t *testing.T) *store.Store {
	t.Helper()
	return open(t, startServer(t, embedded(t.TempDir())).Endpoint())
}

func put(key, value string) record.Op { return record.Op{Key: key, Value: []byte(value)} }

// commit commits what cannot fail and returns its revision.
func commit(t *testing.T, s *store.Store, ops ...record.Op) int64 {
	t.Helper()
	ctx, cancel := after(t, soon)
	defer cancel()
	out := s.Commit(ctx, record.Txn{ID: t.Name(), Then: ops})
	if out.Result != record.Applied {
		t.Fatalf("commit %+v: %v %v", ops, out.Result, out.Err)
	}
	return out.Revision
}

// closes waits for a channel to be closed.
func closes(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatalf("%s: not within %v", what, soon)
	}
}

// proxy passes a connection to etcd on, unless it is frozen: then bytes wait, as they do for a process that is stopped.
type proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	thaw  sync.Cond
	ice   bool
	held  int // passages that have something to pass on, and wait for the thaw
	conns []net.Conn
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.thaw.L = &p.mu
	p.wg.Go(func() { p.accept(to) })
	t.Cleanup(func() {
		_ = l.Close()
		p.freeze(false)
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) endpoint() string { return p.listener.Addr().String() }

func (p *proxy) freeze(ice bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ice = ice
	p.thaw.Broadcast()
}

// holds waits until the ice has caught something.
func (p *proxy) holds(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held > 0 {
			return
		}
	}
	t.Fatalf("nothing came within %v", soon)
}

func (p *proxy) accept(to string) {
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
		p.wg.Go(func() { p.pass(in, out) })
		p.wg.Go(func() { p.pass(out, in) })
	}
}

func (p *proxy) pass(from io.Reader, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.ice {
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

// logger returns a logger and what it wrote.
func logger() (zerolog.Logger, *journal) {
	j := &journal{}
	return zerolog.New(j), j
}
