package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/gate"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
)

const (
	// idleTimeout is how long a connection may be kept for a next request: anybody on
	// the node can open them, and they are not endless.
	idleTimeout = time.Minute
	// shutdownGrace is how long open answers have to end once the server stops.
	shutdownGrace = time.Second
)

// Server answers people and other agents. Make one with NewServer and let Serve run it.
type Server struct {
	cfg  Config
	view *view

	jobs        *jobReader
	nodes       *nodeReader
	devices     *deviceReader
	events      *eventFeed
	local       *localLogs
	logs        *jobLogs
	changes     *changes
	submissions *submissions
	fromUsers   *gate.Bound // requests of other nodes for users that are being answered
	bodies      *bodies
}

// NewServer makes a server; nothing runs before Serve.
func NewServer(cfg Config) *Server {
	if cfg.UserName == nil {
		cfg.UserName = userdb.Name
	}
	s := &Server{cfg: cfg, view: newView(cfg), fromUsers: gate.NewBound(maxConnections, 0)}
	s.bodies = newBodies(s.view)
	others, asked := api.NewAgents(cfg.Node, func(other cluster.NodeID) *tls.Config {
		if s.cfg.Identity == nil {
			return nil
		}
		return s.cfg.Identity.Client(other)
	}), newRequests(&s.cfg)
	s.devices = &deviceReader{&s.cfg, s.view, others}
	ahead := newForesight(s.view)
	s.jobs = &jobReader{s.view, s.devices, ahead}
	s.nodes = &nodeReader{&s.cfg, s.view, s.devices}
	s.events = &eventFeed{s.view}
	s.local = &localLogs{&s.cfg, s.view}
	s.logs = &jobLogs{&s.cfg, s.view, s.local, others}
	s.changes = &changes{s.view, asked}
	s.submissions = &submissions{cfg: &s.cfg, view: s.view, ahead: ahead, requests: asked, limits: &limits{cfg: &s.cfg, view: s.view}}
	return s
}

// Serve answers on the listener until the context ends, and returns when every
// goroutine it started has ended, with the listener closed. Requests are
// answered, with what is wrong, also while etcd is out of reach.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.view.run(ctx) })
	err := serveHTTP(ctx, guarded(ln, s.view), &http.Server{Handler: s.bodies.heard(s.telling(s.handler())), ConnContext: withPeer(s.userName)})
	cancel()
	wg.Wait()
	return err
}

// ServeNodes answers other nodes of the cluster on a TCP listener until the
// context ends, as Serve does those of this machine. It needs Config.Identity and
// a Serve beside it. Other nodes may ask for little: what only this node has.
func (s *Server) ServeNodes(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/node/logs", s.local.handleNodeLogs)
	mux.HandleFunc("GET /v1/node/readings", s.devices.handleReadings)
	refusals := stdlog.New(s.cfg.Log.With().Str("listener", "nodes").Logger(), "", 0)
	secured := s.cfg.Identity.Server()
	return serveHTTP(ctx, tls.NewListener(guardedNodes(ln, secured), secured), &http.Server{
		Handler: s.bodies.heard(s.fromNodes(mux)), ConnContext: withNode, ErrorLog: refusals,
	})
}

// fromNodes answers only nodes that are in the cluster, since a certificate stays
// valid after its node was removed, and bounds the requests of each user.
func (s *Server) fromNodes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := trust.Peer(r.TLS)
		if err != nil {
			writeError(w, api.Fault(api.Forbidden, "%v", err))
			return
		}
		there := false
		if _, err = s.view.read(func(m *record.Mirror) { there = m.Node(id).Alive.Exists() }); err == nil && !there {
			err = api.Fault(api.Unavailable, "node %s is not in this cluster now", id) // its lease may have run out
		}
		if err != nil {
			writeError(w, err)
			return
		}
		leave, err := s.enter(id, r)
		if err != nil {
			writeError(w, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

// enter counts a request that another node makes, and returns the function that
// ends its count. A node asks for many users over its share of connections: no user
// may take it all. What it asks for itself has no user and ends soon.
func (s *Server) enter(from cluster.NodeID, r *http.Request) (leave func(), err error) {
	if r.Header.Get(api.UserHeader) == "" {
		return func() {}, nil
	}
	who, err := caller(r)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s %d", from, who.UID)
	if leave, ok := s.fromUsers.Enter(gate.Peer{Name: name, Most: userConnections}); ok {
		return leave, nil
	}
	return nil, api.Fault(api.Limited, "user %s reads logs of node %s over %d connections from node %s, which is as many as one user may have: end some of those "+
		"(`bellows logs -f` and `bellows run` hold one for each node of their job), or ask an agent on another node", who.User, s.cfg.Node, userConnections, from)
}

// serveHTTP runs an HTTP server until the context ends, and closes the listener.
func serveHTTP(ctx context.Context, ln net.Listener, srv *http.Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	srv.MaxHeaderBytes = maxHeader
	srv.ReadHeaderTimeout, srv.IdleTimeout = commitTimeout, idleTimeout // the first bounds a TLS handshake, too
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer done()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // a client that still reads has had its grace
		}
	})
	err := srv.Serve(ln)
	cancel()
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve api: %w", err)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", s.submissions.handleSubmit)
	mux.HandleFunc("POST /v1/dry-runs", s.submissions.handleDryRun)
	mux.HandleFunc("GET /v1/jobs", s.jobs.handleJobs)
	mux.HandleFunc("GET /v1/jobs/{job}", s.jobs.handleJob)
	mux.HandleFunc("GET /v1/jobs/{job}/watch", s.jobs.handleWatch)
	mux.HandleFunc("GET /v1/jobs/{job}/logs", s.logs.handleLogs)
	mux.HandleFunc("POST /v1/jobs/{job}/stop", s.changes.handleStop)
	mux.HandleFunc("POST /v1/jobs/{job}/resume", s.changes.handleResume)
	mux.HandleFunc("POST /v1/jobs/{job}/scale", s.changes.handleScale)
	mux.HandleFunc("POST /v1/nodes/{node}/drain", s.changes.handleDrain)
	mux.HandleFunc("POST /v1/nodes/{node}/undrain", s.changes.handleUndrain)
	mux.HandleFunc("POST /v1/nodes/{node}/remove", s.changes.handleRemove)
	mux.HandleFunc("GET /v1/nodes", s.nodes.handleNodes)
	mux.HandleFunc("GET /v1/node/logs", s.local.handleNodeLogs)
	mux.HandleFunc("GET /v1/node/readings", s.devices.handleReadings)
	mux.HandleFunc("GET /v1/events", s.events.handleEvents)
	mux.HandleFunc("GET /v1/status", s.handleStatus)
	return mux
}

func (s *Server) userName(ctx context.Context, uid uint32) (string, error) {
	return s.cfg.UserName(ctx, uid)
}

// telling adds to each reply for how long etcd has been silent, if it has.
func (s *Server) telling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Silence != nil {
			if d := s.cfg.Silence(); d > 0 {
				w.Header().Set(api.SilenceHeader, d.String())
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) handleStatus(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	reply := api.AgentStatus{Node: string(s.cfg.Node), Version: s.cfg.Version, UID: ownUID(), Caller: who.User}
	if _, err = s.view.read(func(m *record.Mirror) {
		reply.Leader, reply.Cluster, reply.Revision = leaderOf(m), m.Meta.Value.Cluster, m.Revision
	}); err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, reply)
}
