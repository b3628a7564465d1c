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

// agents reaches the agents of other nodes.
type agents struct{ cfg *Config }

// part is a node, and where its agent answers.
type part struct {
	node cluster.NodeID
	api  string
}

type nodeLogQuery struct {
	job   cluster.JobID
	query LogQuery
	who   cluster.Owner
}

// logs reads another node's part of a generation's logs, for the user who asked us.
func (a *agents) logs(ctx context.Context, p part, q nodeLogQuery, f func(LogLine) error) error {
	c, err := a.at(p.node, p.api)
	if err != nil {
		return err
	}
	c.user = formatUser(q.who)
	v := q.query.values()
	v.Set("job", string(q.job))
	return c.logLines(ctx, "/v1/node/logs?"+v.Encode(), f)
}

// at makes a client for the agent of a node, which answers at addr: on the
// same machine at "unix:/path", from everywhere at "tls:host:port".
func (a *agents) at(id cluster.NodeID, addr string) (*Client, error) {
	kind, where, _ := strings.Cut(addr, ":")
	switch {
	case kind == "unix":
		return NewClient(where), nil
	case kind != "tls":
		return nil, permanent{fmt.Errorf("reach agent at %q: only unix:/path and tls:host:port are understood; is it of a newer version?", addr)}
	case a.cfg.Identity == nil:
		return nil, permanent{fmt.Errorf("reach agent at %s: it wants a certificate, and node %s has none: issue one with bellows tls issue %s",
			where, a.cfg.Node, a.cfg.Node)}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", where)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, a.cfg.Identity.Client(id))
		within, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := secure.HandshakeContext(within); err != nil {
			_ = conn.Close() // nothing was said over it
			return nil, distrust{err}
		}
		return secure, nil
	}
	return &Client{path: where, http: &http.Client{
		// The scheme of the requests is http: the connection is TLS already.
		Transport: &http.Transport{DialContext: dial, ResponseHeaderTimeout: answerTimeout, DisableKeepAlives: true},
	}}, nil
}
