package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/internal/gate"
	"github.com/bellows-ml/bellows/record"
)

const (
	// maxConnections bounds those to the socket, and to the port of other nodes; each
	// may hold a request's body in memory. Thousands of people can follow their jobs.
	maxConnections = 4096
	// nodeConnections is how many one address may have to the port of other nodes. An
	// agent opens one for each log that somebody follows there.
	nodeConnections = 512
	// bodyTimeout bounds how long a request's body may take: it comes from the same machine.
	bodyTimeout = 10 * time.Second
	// maxHeader bounds a request's header: a path, and the name of a user.
	maxHeader = 16 << 10
)

// guarded bounds how many connections each user may have to the socket.
func (s *Server) guarded(ln net.Listener) net.Listener {
	return gate.Listen(ln, gate.Config{
		Total: maxConnections,
		Of: func(c net.Conn) gate.Peer {
			uid, err := uidOf(c)
			if err != nil {
				return gate.Peer{Name: "unknown", Most: 1}
			}
			limits := s.view.allowed()
			if limits.Exempts(uid) || uid == ownUID() {
				return gate.Peer{Name: "exempt", Reserve: true}
			}
			return gate.Peer{Name: strconv.FormatUint(uint64(uid), 10), Most: limits.Connections}
		},
		Refuse: refuseConnection,
	})
}

// guardedNodes bounds how many connections each address may have to the port of other nodes.
func guardedNodes(ln net.Listener) net.Listener {
	return gate.Listen(ln, gate.Config{
		Total: maxConnections,
		Of: func(c net.Conn) gate.Peer {
			host, _, err := net.SplitHostPort(c.RemoteAddr().String())
			if err != nil {
				host = "unknown"
			}
			return gate.Peer{Name: host, Most: nodeConnections}
		},
	})
}

// refusedWithin bounds the time in which a client that is refused has to read why.
const refusedWithin = 500 * time.Millisecond

// refuseConnection answers a request that is not looked at. It is taken in all the
// same: a client that cannot send it does not read the answer, and Go's takes one that
// comes before it has begun to send for no answer of its own.
func refuseConnection(c net.Conn, p gate.Peer) {
	e := fault(Limited, "too many connections to this agent are open (%d of one user's, --user-connections of the coordinator; %d in all): close some, and try again",
		p.Most, maxConnections)
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ", e.Code.status(), http.StatusText(e.Code.status()))
	body := e.json()
	_ = c.SetDeadline(time.Now().Add(refusedWithin))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return // it asks for nothing
	}
	_, _ = io.WriteString(c, head+strconv.Itoa(len(body))+"\r\n\r\n"+string(body))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, maxBody)) // until the client, which has its answer, hangs up
}

// timely reads a request's body before anything is done about it, in bounded time.
// The time of an answer is not bounded: people follow logs for days, and may leave
// them lying; the number of their connections is.
func timely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		err := control.SetReadDeadline(time.Now().Add(bodyTimeout))
		var body []byte
		if err == nil {
			body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		}
		if err == nil {
			err = control.SetReadDeadline(time.Time{})
		}
		if err != nil {
			w.Header().Set("Connection", "close")
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				err = fmt.Errorf("its body did not come within %s", bodyTimeout)
			}
			writeError(w, fault(Invalid, "request: %s", err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// allowed returns the limits that the leader keeps users to, or the defaults while nothing is known.
func (v *view) allowed() record.Limits {
	limits := record.DefaultLimits()
	_, _ = v.read(func(m *record.Mirror) { limits = m.Allowed() })
	return limits
}
