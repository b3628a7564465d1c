package gate

import (
	"net"
	"sync"
)

// reservedShare is the share of all connections that only Peers with Reserve may
// take: one in so many.
const reservedShare = 16

// refusalsAtOnce bounds the calls of Config.Refuse that run at the same time.
const refusalsAtOnce = 32

// Config says what a listener bounds.
type Config struct {
	Total int // connections in all
	// Of returns the peer of a connection. It must not wait for the other end. nil =
	// all are one peer's.
	Of func(net.Conn) Peer
	// Refuse may tell the other end why its connection is closed. It runs on its own
	// goroutine and must end soon by itself; beyond a number of them, connections are
	// closed without it. nil = connections are closed without an answer.
	Refuse func(net.Conn, Peer)
}

// Listen returns the listener with its connections bounded.
func Listen(ln net.Listener, cfg Config) net.Listener {
	if cfg.Of == nil {
		cfg.Of = func(net.Conn) Peer { return Peer{} }
	}
	return &listener{
		Listener: ln, cfg: cfg, open: NewBound(cfg.Total, cfg.Total/reservedShare),
		refusing: NewBound(refusalsAtOnce, 0),
	}
}

type listener struct {
	net.Listener

	cfg      Config
	open     *Bound
	refusing *Bound
	refusals sync.WaitGroup
}

// Accept returns the next connection that is within the bounds.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := l.cfg.Of(c)
		if leave, ok := l.open.Enter(p); ok {
			return Counted(c, leave), nil
		}
		l.refuse(c, p)
	}
}

// Close closes the listener and waits for the calls of Config.Refuse.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.refusals.Wait()
	return err
}

// refuse closes a connection, after Config.Refuse if there is room for that.
func (l *listener) refuse(c net.Conn, p Peer) {
	leave, ok := l.refusing.Enter(Peer{})
	if l.cfg.Refuse == nil || !ok {
		if ok {
			leave()
		}
		_ = c.Close() // nothing was promised over it
		return
	}
	l.refusals.Go(func() {
		defer leave()
		l.cfg.Refuse(c, p)
		_ = c.Close() // as above
	})
}

// Counted returns a connection that calls leave when it is closed.
func Counted(c net.Conn, leave func()) net.Conn { return &conn{Conn: c, leave: leave} }

type conn struct {
	net.Conn

	leave func()
}

// Close closes the connection and ends its count.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// NetConn returns the connection as it was accepted.
func (c *conn) NetConn() net.Conn { return c.Conn }
