package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/api/serve"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

const (
	// readyWithin is how long the cluster may take to come up.
	readyWithin = 60 * time.Second
	readyEvery  = 50 * time.Millisecond
	// haltWithin is how long Ctrl-C waits for the jobs' saves.
	haltWithin = 10 * time.Second
	// leaveWithin is how long agents and coordinator have to leave.
	leaveWithin = 4 * time.Second
	// etcdWithin is how long etcd may take to close.
	etcdWithin = 8 * time.Second
)

// supervisor is the process of `bellows dev`: it has etcd in it and keeps the others running.
type supervisor struct {
	options Options
	layout  layout
	msg     io.Writer

	etcd        *server.Server
	store       *store.Store
	coordinator *child
	agents      map[cluster.NodeID]*child
}

func newSupervisor(o Options, l layout) *supervisor {
	return &supervisor{options: o, layout: l, msg: &lockedWriter{w: os.Stderr}, agents: map[cluster.NodeID]*child{}}
}

// lockedWriter lets many write whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// run brings the cluster up, waits for a signal, and brings it down. Whatever
// happens on the way, nothing of it is left running.
func (s *supervisor) run(ctx context.Context) (err error) {
	began := time.Now()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err = s.cleanUp(); err != nil {
		return err
	}
	control, err := s.listenControl()
	if err != nil {
		return err
	}
	if err = s.startEtcd(ctx); err != nil {
		return errors.Join(err, control.Close())
	}
	defer func() { err = errors.Join(err, s.stopEtcd(ctx)) }()
	controlled, stopControl := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopControl()
	controlEnded := make(chan struct{})
	wg.Go(func() {
		defer close(controlEnded)
		if controlErr := s.serveControl(controlled, control); controlErr != nil {
			fmt.Fprintln(s.msg, "bellows dev: "+controlErr.Error())
		}
	})
	if err = s.startChildren(ctx); err != nil {
		return errors.Join(err, s.killAll())
	}
	starting, stopWaiting := context.WithTimeout(ctx, readyWithin)
	defer stopWaiting()
	first := make(chan os.Signal, 1)
	wg.Go(func() {
		select {
		case sig := <-signals:
			first <- sig
			stopWaiting()
		case <-controlled.Done():
		}
	})
	err = s.awaitReady(starting)
	switch {
	case err == nil:
		s.welcome(time.Since(began))
	case len(first) > 0:
		err = nil // interrupted while starting
	default:
		return errors.Join(err, s.killAll())
	}
	select {
	case <-first:
	case <-ctx.Done():
	case <-s.etcd.Ended():
		return errors.Join(s.etcd.Err(), s.killAll())
	}
	// From here on no node can be brought up again.
	stopControl()
	<-controlEnded
	return s.shutDown(ctx, signals)
}

// cleanUp ends what an earlier run that crashed has left: its agents and
// coordinator, so that this run's take their places, and everything of nodes
// that this run does not have. The shims of its nodes stay: their workers go on,
// and the new agents adopt them.
func (s *supervisor) cleanUp() error {
	unknown := func(id cluster.NodeID) bool {
		_, known := s.layout.node(id)
		return !known
	}
	n, err := killMatching(s.layout.dir, func(p Process) bool { return p.child || p.node != "" && unknown(p.node) })
	if n > 0 {
		fmt.Fprintf(s.msg, "ended %s of an earlier run that was not shut down\n", units.Count(n, "process"))
	}
	return errors.Join(err, removeGroups(s.layout.dir, unknown))
}

func (s *supervisor) listenControl() (net.Listener, error) {
	ln, err := serve.Listen(s.layout.control)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	if err := os.Chmod(s.layout.control, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("open control socket: %w", err), ln.Close())
	}
	return ln, nil
}

// startEtcd starts etcd on the chosen port, or on its usual one, or on any.
func (s *supervisor) startEtcd(ctx context.Context) (err error) {
	log, err := os.OpenFile(childLog(s.layout.dir, "etcd"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log of etcd: %w", err)
	}
	logger := zerolog.New(log).With().Timestamp().Logger()
	if s.etcd, err = s.etcdAt(ctx, cmp.Or(s.options.EtcdPort, EtcdPort), logger); err != nil {
		return err
	}
	if s.store, err = store.Open(ctx, store.Config{Endpoints: []string{s.etcd.Endpoint()}, DialTimeout: readyWithin, Log: logger}); err != nil {
		return errors.Join(err, s.stopEtcd(ctx))
	}
	if _, err = s.store.EnsureMeta(ctx, clusterName); err != nil {
		return errors.Join(err, s.stopEtcd(ctx))
	}
	return nil
}

// etcdAt starts etcd on a port. If that is taken and no port was asked for, etcd gets any
// free one. It tries the port and does not look first: another program could take it
// between the look and the start.
func (s *supervisor) etcdAt(ctx context.Context, port int, log zerolog.Logger) (*server.Server, error) {
	c := server.Config{DataDir: s.layout.dir + "/etcd", Client: fmt.Sprintf("127.0.0.1:%d", port), Name: clusterName, Log: log}
	etcd, err := server.Start(ctx, c)
	if s.options.EtcdPort != 0 || !errors.Is(err, syscall.EADDRINUSE) {
		return etcd, err
	}
	c.Client = "127.0.0.1:0"
	if etcd, err = server.Start(ctx, c); err == nil {
		fmt.Fprintf(s.msg, "port %d is taken: etcd answers at %s\n", port, etcd.Endpoint())
	}
	return etcd, err
}

func (s *supervisor) stopEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), etcdWithin)
	defer cancel()
	var err error
	if s.store != nil {
		err = s.store.Close()
		s.store = nil
	}
	if s.etcd != nil {
		err = errors.Join(err, s.etcd.Close(ctx))
		s.etcd = nil
	}
	return err
}

// startChildren resumes the jobs that were halted, and starts the processes.
func (s *supervisor) startChildren(ctx context.Context) error {
	if err := s.forgetNodes(ctx); err != nil {
		return err
	}
	if err := s.resume(ctx); err != nil {
		return err
	}
	etcd := s.etcd.Endpoint()
	s.coordinator = s.child("coordinator", "", []string{
		"coordinator", "--config", "none", "--etcd", etcd, "--cluster", clusterName, "--name", "dev",
		"--interval", s.options.Interval.String(), "--policy", s.options.Policy,
		"--" + settings.UnlimitedUsers, strconv.Itoa(os.Getuid()), // whose cluster it is
	})
	s.coordinator.up()
	for _, n := range s.layout.nodes {
		s.agents[n.id] = s.child(string(n.id), n.id, s.layout.agentArgs(n, s.options, etcd))
		s.agents[n.id].up()
	}
	return nil
}

func (s *supervisor) child(name string, node cluster.NodeID, args []string) *child {
	return &child{
		name: name, args: args, log: childLog(s.layout.dir, name), warn: s.msg,
		env: []string{dirVariable + "=" + s.layout.dir, nodeVariable + "=" + string(node)},
	}
}

// awaitReady returns once a coordinator leads and every node is alive, except those
// that their user has taken down again.
func (s *supervisor) awaitReady(ctx context.Context) error {
	client := api.NewClient(s.layout.socket)
	missing := "no agent answers"
	for {
		if status, err := client.Status(ctx); err == nil {
			missing = s.missing(ctx, client, status.Leader)
		}
		if missing == "" || !s.agents[s.layout.nodes[0].id].isUp() { // who would answer is down
			return nil
		}
		for _, c := range s.children() {
			if c.failing() {
				return fmt.Errorf("%s does not stay up; the end of %s:\n%s", c.name, c.log, c.lastLines(5))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster did not come up within %s: %s\n%s", readyWithin, missing, s.logTails())
		case <-time.After(readyEvery):
		}
	}
}

func (s *supervisor) missing(ctx context.Context, client *api.Client, leader string) string {
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return err.Error()
	}
	var absent []string
	there := func(n node) func(api.NodeStatus) bool {
		return func(x api.NodeStatus) bool {
			return x.ID == string(n.id) && x.Alive && len(x.Devices) > 0 && x.Gossip == "alive"
		}
	}
	for _, n := range s.layout.nodes {
		if s.agents[n.id].isUp() && !slices.ContainsFunc(nodes, there(n)) {
			absent = append(absent, string(n.id))
		}
	}
	switch {
	case len(absent) > 0:
		return "missing: " + strings.Join(absent, ", ")
	case leader == "":
		return "no coordinator leads"
	}
	return ""
}

func (s *supervisor) logTails() string {
	var b strings.Builder
	for _, n := range s.layout.nodes[:1] {
		fmt.Fprintf(&b, "the end of %s:\n%s\n", s.agents[n.id].log, s.agents[n.id].lastLines(5))
	}
	fmt.Fprintf(&b, "the end of %s:\n%s", s.coordinator.log, s.coordinator.lastLines(5))
	return b.String()
}

func (s *supervisor) killNode(_ context.Context, id cluster.NodeID) (string, error) {
	agent := s.agents[id]
	switch {
	case agent == nil:
		return "", fmt.Errorf("there is no node %s: see bellows nodes", id)
	case !agent.isUp():
		return "", fmt.Errorf("node %s is down already: bellows dev start %s brings it up", id, id)
	}
	agent.down(syscall.SIGKILL, 0)
	n, err := killMatching(s.layout.dir, func(p Process) bool { return p.node == id })
	if err = errors.Join(err, removeGroups(s.layout.dir, func(n cluster.NodeID) bool { return n == id })); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s is down: its agent and %s of its jobs were killed", id, units.Count(n, "process"))
	fmt.Fprintln(s.msg, text)
	return text, nil
}

func (s *supervisor) startNode(_ context.Context, id cluster.NodeID) (string, error) {
	agent := s.agents[id]
	switch {
	case agent == nil:
		return "", fmt.Errorf("there is no node %s: see bellows nodes", id)
	case agent.isUp():
		return "", fmt.Errorf("node %s is up already", id)
	}
	agent.up()
	text := fmt.Sprintf("%s is up again", id)
	fmt.Fprintln(s.msg, text)
	return text, nil
}

// killAll ends every process at once and removes the sockets that killed agents leave behind.
func (s *supervisor) killAll() error {
	s.eachChild(func(c *child) { c.down(syscall.SIGKILL, 0) })
	_, err := killMatching(s.layout.dir, func(Process) bool { return true })
	err = errors.Join(err, removeGroups(s.layout.dir, func(cluster.NodeID) bool { return true }))
	for _, n := range s.layout.nodes {
		err = errors.Join(err, removeDead(n.socket))
	}
	if s.options.Socket == "" {
		// Made for this cluster's sockets; with others' in it, it stays.
		_ = os.Remove(filepath.Dir(s.layout.socket))
	}
	return err
}

// removeDead removes a socket on which no process answers: one that does answer is
// another agent's, and may be why this cluster did not come up.
func removeDead(socket string) error {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		return conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return os.Remove(socket)
}

// eachChild calls f for every child at the same time and returns when all have.
func (s *supervisor) eachChild(f func(*child)) {
	var wg sync.WaitGroup
	for _, c := range s.children() {
		wg.Go(func() { f(c) })
	}
	wg.Wait()
}

// children lists the processes that there are.
func (s *supervisor) children() []*child {
	var list []*child
	if s.coordinator != nil {
		list = append(list, s.coordinator)
	}
	for _, n := range s.layout.nodes {
		if c := s.agents[n.id]; c != nil {
			list = append(list, c)
		}
	}
	return list
}

// active lists the jobs that may still have processes.
func (s *supervisor) active(ctx context.Context) (jobs []cluster.JobID, err error) {
	kvs, revision, err := s.store.Range(ctx, record.JobsPrefix)
	if err != nil {
		return nil, err
	}
	m, err := record.NewMirror(kvs, revision)
	if err != nil {
		return nil, err
	}
	for _, id := range m.JobIDs() {
		if m.Job(id).State.Value.Phase.Active() {
			jobs = append(jobs, id)
		}
	}
	return jobs, nil
}
