package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/socketpath"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// controlTimeout bounds a `bellows dev kill`: killing a node's processes takes some milliseconds.
const controlTimeout = 15 * time.Second

// serveControl answers `bellows dev kill` and `bellows dev start` until the
// context ends. Only the user who runs the cluster may ask: the socket is theirs.
func (s *supervisor) serveControl(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	handle := func(verb string, act func(context.Context, cluster.NodeID) (string, error)) {
		mux.HandleFunc("POST /"+verb+"/{node}", func(w http.ResponseWriter, r *http.Request) {
			text, err := act(r.Context(), cluster.NodeID(r.PathValue("node")))
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				text = err.Error()
			}
			_, _ = io.WriteString(w, text) // the caller may have gone
		})
	}
	handle("kill", s.killNode)
	handle("start", s.startNode)
	srv := &http.Server{Handler: mux, ReadTimeout: controlTimeout, IdleTimeout: controlTimeout}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve control socket: %w", err)
	}
	return nil
}

// Ask asks the `bellows dev` whose first agent has a socket, or this user's if that is empty,
// to kill or to start a node, and returns its answer.
func Ask(ctx context.Context, socket, verb, node string) (string, error) {
	if socket == "" {
		socket = socketpath.Own()
	}
	socket = controlSocket(socket)
	if err := cluster.CheckName(node); err != nil {
		return "", fault.Usage("node: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://dev/"+verb+"/"+node, nil)
	if err != nil {
		return "", fmt.Errorf("ask 'bellows dev': %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fault.WithRemedy(api.ErrNoAgent, fmt.Sprintf("no 'bellows dev' answers at %s: start it, or set --socket/$%s as it was started with", socket, socketpath.Variable))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("read answer of 'bellows dev': %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
