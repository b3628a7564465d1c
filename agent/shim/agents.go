package shim

import (
	"encoding/json"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
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

// serveAgents accepts connections until the listener is closed.
func (m *machine) serveAgents(l *net.UnixListener) {
	accept(l, func(c *net.UnixConn, cred *unix.Ucred) {
		if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
			m.heard.Warn().Uint32("uid", cred.Uid).Msg("refused a connection to the control socket: only the agent's own user and root may connect")
			_ = c.Close()
			return
		}
		a := &agentConn{conn: c, slot: make(chan []byte, 1), gone: make(chan struct{})}
		m.post(func() { m.welcome(a) })
	})
}

func (m *machine) welcome(a *agentConn) {
	if len(m.agents) >= maxAgents {
		m.heard.Warn().Int("connections", maxAgents).Msg("refused a connection to the control socket: too many are open")
		_ = a.conn.Close()
		return
	}
	m.agents[a] = true
	if m.encoded != nil {
		a.offer(m.encoded)
	}
	go a.write()
	go func() {
		lines(a.conn, maxMessage, func(line []byte) bool {
			var w Wish
			if err := json.Unmarshal(line, &w); err != nil {
				m.heard.Warn().Err(err).Msg("an agent's wish cannot be read")
				return false
			}
			m.post(func() { m.wished(w) })
			return true
		})
		close(a.gone)
		_ = a.conn.Close()
		m.post(func() { delete(m.agents, a) })
	}()
}

// offer replaces what waits to be sent. Only the machine calls it.
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
