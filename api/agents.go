package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// Agents reaches the agents of other nodes for one node's.
type Agents struct {
	node   cluster.NodeID
	secure func(cluster.NodeID) *tls.Config
}

// NewAgents makes one for a node; secure returns how it talks to another, nil if it has no certificate.
func NewAgents(node cluster.NodeID, secure func(cluster.NodeID) *tls.Config) *Agents {
	return &Agents{node, secure}
}

// An Agent is a node's, and where it answers: on the same machine at "unix:/path", from everywhere at "tls:host:port".
type Agent struct {
	Node cluster.NodeID
	Addr string
}

// NodeLogQuery says which lines of a node's part of a job's logs are wanted, and who wants them.
type NodeLogQuery struct {
	Job   cluster.JobID
	Query LogQuery
	Who   cluster.Owner
}

// Logs reads another node's part of a generation's logs, for a user who asked this one.
func (a *Agents) Logs(ctx context.Context, at Agent, q NodeLogQuery, f func(LogLine) error) error {
	c, err := a.Client(at)
	if err != nil {
		return err
	}
	c = c.As(FormatUser(q.Who))
	v := q.Query.values()
	v.Set("job", string(q.Job))
	return c.logLines(ctx, "/v1/node/logs?"+v.Encode(), f)
}

// Readings asks another node what its devices are doing.
func (a *Agents) Readings(ctx context.Context, at Agent) (r NodeReadings, err error) {
	c, err := a.Client(at)
	if err != nil {
		return r, err
	}
	return r, c.Call(ctx, http.MethodGet, "/v1/node/readings", nil, &r)
}

// Client makes a client for an agent.
func (a *Agents) Client(at Agent) (*Client, error) {
	kind, where, _ := strings.Cut(at.Addr, ":")
	secure := a.secure(at.Node)
	switch {
	case kind == "unix":
		return NewClient(where), nil
	case kind != "tls":
		return nil, permanent{fmt.Errorf("reach agent at %q: only unix:/path and tls:host:port are understood; is it of a newer version?", at.Addr)}
	case secure == nil:
		return nil, permanent{fmt.Errorf("reach agent at %s: it wants a certificate, and node %s has none: issue one with bellows tls issue %s",
			where, a.node, a.node)}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", where)
		if err != nil {
			return nil, err
		}
		encrypted := tls.Client(conn, secure)
		within, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := encrypted.HandshakeContext(within); err != nil {
			_ = conn.Close() // nothing was said over it
			return nil, distrust{err}
		}
		return encrypted, nil
	}
	return &Client{path: where, http: &http.Client{
		// The scheme of the requests is http: the connection is TLS already.
		Transport: &http.Transport{DialContext: dial, ResponseHeaderTimeout: answerTimeout, DisableKeepAlives: true},
	}}, nil
}
