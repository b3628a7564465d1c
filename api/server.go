package api

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/record"
)

const (
	// maxBody bounds a request: a spec at its own limits, with room for JSON's escapes.
	maxBody = 2 * cluster.MaxSpecBytes
	// maxFaults bounds what is said to be wrong with one, which may be a fault for each of its words.
	maxFaults = 8 << 10
	// commitTimeout bounds how long a request waits for etcd before its caller is told to ask again.
	commitTimeout = 5 * time.Second
	// commitAttempt is after how long it is sent again in that time: what reached
	// an etcd of several members just before its leader died is never answered,
	// though another leads after a second.
	commitAttempt = 1500 * time.Millisecond
	// knownWithin is how long a reply waits for the agent's own watch, which takes
	// milliseconds unless it has to begin anew.
	knownWithin = 2 * time.Second
	// idleTimeout is how long a connection may be kept for a next request: anybody on
	// the node can open them, and they are not endless.
	idleTimeout = time.Minute
	// shutdownGrace is how long open answers have to end once the server stops.
	shutdownGrace = time.Second
)

// Config is what a Server needs of its agent.
type Config struct {
	KV      KV
	Watch   WatchFunc
	Node    cluster.NodeID
	LogDir  string // <LogDir>/<job>/g<%08d>/rank-<r>.log
	Version string
	// Identity is what this node shows to others; nil = it talks to those on this machine only.
	Identity *trust.Identity
	// Gossip says what this agent hears of each node: alive, suspect, dead or left. May be nil.
	Gossip func() map[cluster.NodeID]string
	// Readings says what this node's devices were doing when last looked at. It
	// answers at once. May be nil.
	Readings func() NodeReadings
	// Silence says for how long etcd has not answered this node; 0 = it does, or
	// never has. Replies say so, for what they show is then the last picture. May be nil.
	Silence func() time.Duration
	// Space says how full etcd is. May be nil.
	Space func(context.Context) (record.Space, error)
	Log   zerolog.Logger
}

// Server answers people and other agents. Make one with NewServer and let Serve run it.
type Server struct {
	cfg  Config
	view *view
	turn chan struct{} // holds one: whose request is being written
	room room
}

// NewServer makes a server; nothing runs before Serve.
func NewServer(cfg Config) *Server {
	return &Server{cfg: cfg, view: newView(cfg), turn: make(chan struct{}, 1)}
}

// Serve answers on the listener until the context ends, and returns when every
// goroutine it started has ended, with the listener closed. Requests are
// answered, with what is wrong, also while etcd is out of reach.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.view.run(ctx) })
	err := serveHTTP(ctx, s.guarded(ln), &http.Server{Handler: s.telling(s.handler()), ConnContext: withPeer})
	cancel()
	wg.Wait()
	return err
}

// ServeNodes answers other nodes of the cluster on a TCP listener until the
// context ends, as Serve does those of this machine. It needs Config.Identity and
// a Serve beside it. Other nodes may ask for little: what only this node has.
func (s *Server) ServeNodes(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/node/logs", s.handleNodeLogs)
	mux.HandleFunc("GET /v1/node/readings", s.handleReadings)
	refusals := stdlog.New(s.cfg.Log.With().Str("listener", "nodes").Logger(), "", 0)
	return serveHTTP(ctx, tls.NewListener(guardedNodes(ln), s.cfg.Identity.Server()), &http.Server{
		Handler: s.fromNodes(mux), ConnContext: withNode, ErrorLog: refusals,
	})
}

// fromNodes lets only nodes that are in the cluster ask: a certificate outlives a node that was taken out.
func (s *Server) fromNodes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := trust.Peer(r.TLS)
		if err != nil {
			writeError(w, fault(Forbidden, "%v", err))
			return
		}
		there := false
		if _, err = s.view.read(func(m *record.Mirror) { there = m.Node(id).Alive.Exists() }); err == nil && !there {
			err = fault(Unavailable, "node %s is not in this cluster now", id) // its lease may have run out
		}
		if err != nil {
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveHTTP runs an HTTP server until the context ends, and closes the listener.
func serveHTTP(ctx context.Context, ln net.Listener, srv *http.Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	srv.Handler, srv.MaxHeaderBytes = timely(srv.Handler), maxHeader
	srv.ReadHeaderTimeout, srv.IdleTimeout = commitTimeout, idleTimeout // the first bounds a TLS handshake, too
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer done()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // whoever still reads does so after our end
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
	mux.HandleFunc("POST /v1/jobs", s.handleSubmit)
	mux.HandleFunc("GET /v1/jobs", s.handleJobs)
	mux.HandleFunc("GET /v1/jobs/{job}", s.handleJob)
	mux.HandleFunc("GET /v1/jobs/{job}/watch", s.handleWatch)
	mux.HandleFunc("GET /v1/jobs/{job}/logs", s.handleLogs)
	mux.HandleFunc("POST /v1/jobs/{job}/stop", s.handleStop)
	mux.HandleFunc("POST /v1/jobs/{job}/resume", s.handleResume)
	mux.HandleFunc("POST /v1/jobs/{job}/scale", s.handleScale)
	mux.HandleFunc("POST /v1/nodes/{node}/drain", s.handleDrain)
	mux.HandleFunc("POST /v1/nodes/{node}/undrain", s.handleUndrain)
	mux.HandleFunc("POST /v1/nodes/{node}/remove", s.handleRemove)
	mux.HandleFunc("GET /v1/nodes", s.handleNodes)
	mux.HandleFunc("GET /v1/node/logs", s.handleNodeLogs)
	mux.HandleFunc("GET /v1/node/readings", s.handleReadings)
	mux.HandleFunc("GET /v1/events", s.handleEvents)
	mux.HandleFunc("GET /v1/status", s.handleStatus)
	return mux
}

// silenceHeader is for how long etcd has not answered, as time.Duration writes it.
const silenceHeader = "Bellows-Etcd-Silence"

// telling adds to each reply for how long etcd has been silent, if it has.
func (s *Server) telling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Silence != nil {
			if d := s.cfg.Silence(); d > 0 {
				w.Header().Set(silenceHeader, d.String())
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
	reply := AgentStatus{Node: string(s.cfg.Node), Version: s.cfg.Version, UID: ownUID(), Caller: who.User}
	if _, err = s.view.read(func(m *record.Mirror) {
		reply.Leader, reply.Cluster = leaderOf(m), m.Meta.Value.Cluster
	}); err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, reply)
}

func (s *Server) handleNodes(w http.ResponseWriter, r *http.Request) {
	var gossip map[cluster.NodeID]string
	if s.cfg.Gossip != nil {
		gossip = s.cfg.Gossip()
	}
	var list []NodeStatus
	if _, err := s.view.read(func(m *record.Mirror) { list = nodeStatuses(m, gossip) }); err != nil {
		writeError(w, err)
		return
	}
	s.addReadings(r.Context(), list)
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) handleJobs(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	all := r.URL.Query().Has("all")
	list := []JobStatus{}
	if _, err = s.view.read(func(m *record.Mirror) {
		list = append(list, jobs(m, who, func(_ cluster.JobID, _ string, ended bool) bool { return all || !ended })...)
	}); err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) handleJob(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	status, _, err := s.job(r.PathValue("job"), who)
	if err != nil {
		writeError(w, err)
		return
	}
	s.addJobReadings(r.Context(), &status)
	writeJSON(w, http.StatusOK, status)
}

// job reads one job and returns a channel that is closed when something has changed since.
func (s *Server) job(ref string, who cluster.Owner) (status JobStatus, changed <-chan struct{}, err error) {
	var found bool
	changed, err = s.view.read(func(m *record.Mirror) { status, found = findJob(m, ref, who) })
	if err == nil && !found {
		err = fault(NotFound, "there is no job %.80q: `bellows ps --all` lists all of them", ref)
	}
	return status, changed, err
}

// watchEvery is how often a watched job is looked at at most: a big cluster changes
// hundreds of times a second, and mostly elsewhere.
const watchEvery = 200 * time.Millisecond

// handleWatch writes the job's status as a JSON line whenever it changes, until the job has ended.
func (s *Server) handleWatch(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	ref, last, out := r.PathValue("job"), "", newLines(w)
	for {
		next := time.After(watchEvery)
		status, changed, err := s.job(ref, who)
		if err != nil {
			if last == "" {
				writeError(w, err)
			}
			return
		}
		ref = status.ID // a name may come to mean another job
		line, err := json.Marshal(status)
		if err != nil {
			panic(fmt.Sprintf("marshal %+v: %v", status, err))
		}
		if string(line) != last {
			last = string(line)
			if out.write(line) != nil {
				return // the caller has gone
			}
		}
		if status.Ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		}
	}
}

// lines writes JSON lines that reach the reader at once.
type lines struct {
	w     io.Writer
	flush func() error
}

func newLines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return lines{w, http.NewResponseController(w).Flush}
}

func (l lines) write(line []byte) error {
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write line: %w", err)
	}
	return l.flush()
}

// logFolder is where this node keeps what one generation's workers wrote.
func (s *Server) logFolder(job cluster.JobID, g cluster.Generation) string {
	return filepath.Join(s.cfg.LogDir, string(job), fmt.Sprintf("g%08d", uint64(g)))
}

func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fault(Invalid, "request: %s", err)
	}
	return nil
}

// mayHost reports why this agent cannot run jobs of a user: only root may become
// others, and only those that have a name, by which each node looks up their groups.
func mayHost(who cluster.Owner) error {
	self := ownUID()
	switch {
	case self == who.UID:
		return nil
	case self != 0:
		return fault(Forbidden, "this agent runs as %s (uid %d) and can only run that user's jobs; you are %s (uid %d): ask an agent that runs as root, or your own",
			userName(self), self, who.User, who.UID)
	case who.User == unnamed(who.UID):
		return fault(Forbidden, "uid %d has no user name on this node: create the user, with the same uid on every node, or look at the directory service, then submit again", who.UID)
	}
	return nil
}
