package shim

import (
	"encoding/json"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

const (
	// maxMessage bounds a line between agent and shim: a report of a node full of
	// devices has some tens of kilobytes.
	maxMessage = 8 << 20
	// maxAgents is how many connections may be open: one agent, its predecessor
	// that is about to notice its death, and people who look.
	maxAgents = 16
	// sendBound is how long the other end may leave a message lying.
	sendBound = 10 * time.Second
)

// agentConn is one connection to the control socket: whole wishes come, whole reports go.
type agentConn struct {
	conn *net.UnixConn
	slot chan []byte // the newest report not yet sent
	gone chan struct{}
}

// agentServer is the control socket. The loop owns it, but for the accepting,
// reading and writing.
type agentServer struct {
	*shared

	wished func(run.Wish) // takes in what an agent wants
	conns  map[*agentConn]bool
	newest []byte // report, encoded
}

// serve accepts connections until the listener is closed.
func (s *agentServer) serve(l *net.UnixListener) {
	accept(l, func(c *net.UnixConn, cred *unix.Ucred) {
		if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
			s.heard.Warn().Uint32("uid", cred.Uid).Msg("refused a connection to the control socket: only the agent's own user and root may connect")
			_ = c.Close()
			return
		}
		a := &agentConn{conn: c, slot: make(chan []byte, 1), gone: make(chan struct{})}
		s.post(func() { s.welcome(a) })
	})
}

func (s *agentServer) welcome(a *agentConn) {
	if len(s.conns) >= maxAgents {
		s.heard.Warn().Int("connections", maxAgents).Msg("refused a connection to the control socket: too many are open")
		_ = a.conn.Close()
		return
	}
	s.conns[a] = true
	if s.newest != nil {
		a.offer(s.newest)
	}
	go a.write()
	go func() {
		lines(a.conn, maxMessage, func(line []byte) bool {
			var w run.Wish
			if err := json.Unmarshal(line, &w); err != nil {
				s.heard.Warn().Err(err).Msg("an agent's wish cannot be read")
				return false
			}
			s.post(func() { s.wished(w) })
			return true
		})
		close(a.gone)
		_ = a.conn.Close()
		s.post(func() { delete(s.conns, a) })
	}()
}

// offer sends a report to all, and to those who come later.
func (s *agentServer) offer(report []byte) {
	s.newest = report
	for a := range s.conns {
		a.offer(report)
	}
}

// shut hangs up everywhere.
func (s *agentServer) shut() {
	for a := range s.conns {
		_ = a.conn.Close()
	}
}

// offer replaces what waits to be sent. Only the loop calls it.
func (a *agentConn) offer(report []byte) {
	select {
	case <-a.slot:
	default:
	}
	a.slot <- report
}

func (a *agentConn) write() {
	for {
		select {
		case b := <-a.slot:
			err := a.conn.SetWriteDeadline(time.Now().Add(sendBound))
			if err == nil {
				_, err = a.conn.Write(b)
			}
			if err != nil {
				_ = a.conn.Close() // which ends the reading too
				return
			}
		case <-a.gone:
			return
		}
	}
}
