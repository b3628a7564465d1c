package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/internal/gate"
)

const (
	// maxConnections bounds those to the socket, and to the port of other nodes. Thousands
	// of people can follow their jobs.
	maxConnections = 4096
	// nodeConnections is how many connections one address may have to the port of
	// other nodes. An agent opens one for each log that it follows there.
	nodeConnections = 512
	// userConnections is how many of those may serve one user, so that eight users at
	// least share a node's.
	userConnections = 64
	// maxHeader bounds a request's header: a path, and the name of a user.
	maxHeader = 16 << 10
)

// guarded bounds how many connections each user may have to the socket.
func guarded(ln net.Listener, v *view) net.Listener {
	return gate.Listen(ln, gate.Config{
		Total: maxConnections,
		Of: func(c net.Conn) gate.Peer {
			peer, err := peerOf(c)
			if err != nil {
				return gate.Peer{Name: "unknown", Most: 1}
			}
			if v.exempt(peer.UID) {
				return gate.Peer{Name: "exempt", Reserve: true}
			}
			return gate.Peer{Name: strconv.FormatUint(uint64(peer.UID), 10), Most: v.allowed().Connections}
		},
		Refuse: func(c net.Conn, p gate.Peer) {
			answerRefused(c, api.Fault(api.Limited, "too many connections to this agent are open (%d of one user's, --user-connections of the coordinator; %d in all): close some, and try again",
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
			answerRefused(tls.Server(c, secured), api.Fault(api.Limited, "too many connections of node %s to this agent are open (%d of one node; %d in all): "+
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
func answerRefused(c net.Conn, e *api.Error, within time.Duration) {
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ", statusOf(e.Code), http.StatusText(statusOf(e.Code)))
	body := errorJSON(e)
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return // it asks for nothing
	}
	_, _ = io.WriteString(c, head+strconv.Itoa(len(body))+"\r\n\r\n"+string(body))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, api.MaxBody)) // until the client, which has its answer, hangs up
}
