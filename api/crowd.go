package api

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/internal/gate"
)

const (
	// maxConnections bounds those to the socket, and to the port of other nodes; each
	// may hold a request's body in memory. Thousands of people can follow their jobs.
	maxConnections = 4096
	// nodeConnections is how many connections one address may have to the port of
	// other nodes. An agent opens one for each log that it follows there.
	nodeConnections = 512
	// userConnections is how many of those may serve one user, so that eight users at
	// least share a node's.
	userConnections = 64
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
			peer, err := peerOf(c)
			if err != nil {
				return gate.Peer{Name: "unknown", Most: 1}
			}
			limits := s.view.allowed()
			if limits.Exempts(peer.UID) || peer.UID == ownUID() {
				return gate.Peer{Name: "exempt", Reserve: true}
			}
			return gate.Peer{Name: strconv.FormatUint(uint64(peer.UID), 10), Most: limits.Connections}
		},
		Refuse: func(c net.Conn, p gate.Peer) {
			answerRefused(c, fault(Limited, "too many connections to this agent are open (%d of one user's, --user-connections of the coordinator; %d in all): close some, and try again",
				p.Most, maxConnections), refusedWithin)
		},
	})
}

// guardedNodes bounds how many connections each address may have to the port of
// other nodes. A refusal is an answer, too, for which the connection is secured first.
func guardedNodes(ln net.Listener, secured *tls.Config) net.Listener {
	return gate.Listen(ln, gate.Config{
		Total: maxConnections,
		Of: func(c net.Conn) gate.Peer {
			host, _, err := net.SplitHostPort(c.RemoteAddr().String())
			if err != nil {
				host = "unknown"
			}
			return gate.Peer{Name: host, Most: nodeConnections}
		},
		Refuse: func(c net.Conn, p gate.Peer) {
			answerRefused(tls.Server(c, secured), fault(Limited, "too many connections of node %s to this agent are open (%d of one node; %d in all): "+
				"its users follow too many logs (`bellows logs -f`, `bellows run`): end some, and try again", p.Name, p.Most, maxConnections), nodeRefusedWithin)
		},
	})
}

const (
	// refusedWithin bounds the time in which a refused client has to read the answer.
	refusedWithin = 500 * time.Millisecond
	// nodeRefusedWithin does so for a node, with the handshake of TLS before it.
	nodeRefusedWithin = 5 * time.Second
)

// answerRefused answers a request without parsing it. It reads the request all the
// same: a client that cannot send does not read the answer, and Go's client does not
// accept an answer that arrives before it has started to send.
func answerRefused(c net.Conn, e *Error, within time.Duration) {
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ", e.Code.status(), http.StatusText(e.Code.status()))
	body := e.json()
	_ = c.SetDeadline(time.Now().Add(within))
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
