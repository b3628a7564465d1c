package gate

import (
	"net"
	"sync"
)

// reserve is the part of all connections that only Peers with Reserve may take.
const reserve = 16

// toldAtOnce bounds the refusals that are under way.
const toldAtOnce = 32

// Peer is whose a connection is.
type Peer struct {
	Name string // connections of one name count together
	Most int    // how many of them may be open; 0 = as many as there are in all
	// Reserve: it may take the last of all connections, too.
	Reserve bool
}

// Config says what a listener bounds.
type Config struct {
	Total int // connections in all
	// Of says whose a connection is. It must not wait for the other end. nil = all are one peer's.
	Of func(net.Conn) Peer
	// Refuse may tell the other end why its connection is closed. It runs beside
	// Accept, and has to end soon by itself; where many are being refused, more are
	// closed without a word. nil = nothing is said.
	Refuse func(net.Conn, Peer)
}

// Listen returns the listener with its connections bounded.
func Listen(ln net.Listener, cfg Config) net.Listener {
	if cfg.Of == nil {
		cfg.Of = func(net.Conn) Peer { return Peer{} }
	}
	return &listener{Listener: ln, cfg: cfg, open: map[string]int{}}
}

type listener struct {
	net.Listener

	cfg Config

	told sync.WaitGroup

	mu      sync.Mutex
	open    map[string]int // by peer
	total   int
	telling int
}

// Accept returns the next connection that may be open.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := l.cfg.Of(c)
		if l.enter(p) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(p) })}, nil
		}
		l.refuse(c, p)
	}
}

// Close closes the listener, and returns when no refusal is under way.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.told.Wait()
	return err
}

// refuse closes a connection that may not be open, and says why if it can.
func (l *listener) refuse(c net.Conn, p Peer) {
	l.mu.Lock()
	tell := l.cfg.Refuse != nil && l.telling < toldAtOnce
	if tell {
		l.telling++
	}
	l.mu.Unlock()
	if !tell {
		_ = c.Close() // it was not wanted
		return
	}
	l.told.Go(func() {
		l.cfg.Refuse(c, p)
		_ = c.Close() // as above
		l.mu.Lock()
		l.telling--
		l.mu.Unlock()
	})
}

func (l *listener) enter(p Peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.cfg.Total
	if !p.Reserve {
		room -= room / reserve
	}
	if l.total >= room || p.Most > 0 && l.open[p.Name] >= p.Most {
		return false
	}
	l.total++
	l.open[p.Name]++
	return true
}

func (l *listener) leave(p Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.open[p.Name]--; l.open[p.Name] == 0 {
		delete(l.open, p.Name)
	}
}

// conn is a connection that is counted.
type conn struct {
	net.Conn

	leave func()
}

// Close closes the connection, which no longer counts then.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// NetConn is the connection as it was accepted.
func (c *conn) NetConn() net.Conn { return c.Conn }
