package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/api/serve"
	"github.com/bellows-ml/bellows/internal/systemd"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// Run is a node's agent. It returns nil when ctx ends, and an error when this
// node cannot be in the cluster as it is configured; trouble that may pass it
// only logs. Jobs are not disturbed by its end: a successor adopts them, if it
// comes before the node's lease expires.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = cfg.check()
	if err != nil {
		return fmt.Errorf("agent configuration: %w", err)
	}
	defer func() { err = errors.Join(err, cfg.Devices.Close()) }()
	cfg.Log = cfg.Log.With().Str("node", string(cfg.Node)).Logger()
	data, err := openDataDir(cfg.DataDir, cfg.Node, cfg.Cluster)
	if err != nil {
		return err
	}
	defer data.close() //nolint:errcheck // nothing is written through it
	s, err := connect(ctx, cfg)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	err = runOn(ctx, cfg, data, s)
	return errors.Join(ignoreEnd(ctx, err), s.Close())
}

// ignoreEnd leaves out an error that only says that we were asked to end.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// connect waits for etcd as long as it takes.
func connect(ctx context.Context, cfg Config) (s *store.Store, err error) {
	cfg.Log.Info().Strs("etcd", cfg.Etcd.Endpoints).Msg("connecting to etcd")
	err = loop.Persist(ctx, cfg.Log, "reach etcd", func() (bool, error) {
		etcd := cfg.Etcd
		etcd.Log = cfg.Log
		s, err = store.Open(ctx, etcd)
		return false, err
	})
	return s, err
}

// runOn is Run once etcd has answered.
func runOn(ctx context.Context, cfg Config, data *dataDir, s *store.Store) error {
	if err := renewKept(ctx, s, data, cfg.Log); err != nil {
		return err
	}
	name, err := join(ctx, cfg, data, s)
	if err != nil {
		return err
	}
	at := here{Cluster: name, Scopes: scopes(ctx, cfg), DeviceFiles: contain.TryDevices(cfg.Containment)}
	if err = data.keepRunDir(cfg.RunDir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sh := newShared(ctx, cfg, s, data)
	session := newSession(sh)
	o, err := openOutside(cfg, &census{store: s, self: cfg.Node, counted: session.counted})
	if err != nil {
		return err
	}
	return newNode(sh, session, o.gossip, at).run(o, cancel)
}

// scopes reports whether shims get transient scopes of systemd's, so that nothing
// that is done to the agent's unit is done to training.
func scopes(ctx context.Context, cfg Config) bool {
	if !systemd.Managed() {
		return false
	}
	if err := systemd.TryScope(ctx); err != nil {
		cfg.Log.Warn().Err(err).Msg("workers will be part of this service: its unit must say KillMode=process, or ending it ends them")
		return false
	}
	return true
}

// join checks that this etcd holds the cluster that this node belongs to.
func join(ctx context.Context, cfg Config, data *dataDir, s *store.Store) (string, error) {
	want := cfg.Cluster
	if want == "" {
		want = data.id.Cluster
	}
	var meta record.Meta
	err := loop.Persist(ctx, cfg.Log, "join the cluster", func() (final bool, err error) {
		meta, err = s.CheckMeta(ctx, want)
		// A meta record that was read and refused will not get better.
		return meta != (record.Meta{}), err
	})
	if err != nil {
		return "", fmt.Errorf("data directory %s: %w", cfg.DataDir, err)
	}
	return meta.Cluster, data.joined(meta.Cluster)
}

// run starts everything that runs beside, is the loop itself, and ends them all.
func (n *node) run(o *outside, cancel context.CancelFunc) error {
	n.adoption.adopt(scan(n.data.runDirs()))
	n.adoption.lookForLost()
	server := serve.NewServer(serve.Config{
		KV: o.census, Watch: o.census.watch, Node: n.cfg.Node, LogDir: n.cfg.logDir(), Version: n.cfg.Version,
		Gossip: n.gossip.states, Readings: n.devices.Shown, Identity: n.cfg.Identity, Silence: n.session.silence, Space: n.store.Space, Log: n.Log,
	})
	l := &life{
		store: n.store, dir: n.data, alive: o.alive, node: record.AliveKey(n.cfg.Node), cfg: n.cfg, log: n.Log,
		abandon: n.session.abandon, report: n.session.changed,
	}
	var fatal firstError
	var outer sync.WaitGroup
	outer.Go(n.gossip.listen)
	n.Go(func() { fatal.set(l.run(n.Context()), cancel) })
	n.Go(func() { fatal.set(server.Serve(n.Context(), o.people), cancel) })
	if o.nodes != nil {
		n.Go(func() { fatal.set(server.ServeNodes(n.Context(), o.nodes), cancel) })
	}
	n.Go(func() { n.watchdog.Run(n.Context()) })
	n.devices.Look()
	n.loop()
	cancel()
	n.Wait()
	err := errors.Join(fatal.err, n.leave(), n.gossip.Close())
	outer.Wait()
	return err
}

// leave takes the node out of the cluster at once, if that is wanted and nothing runs here.
func (n *node) leave() error {
	if !n.cfg.Leave || n.session.presence.lease == 0 {
		return nil
	}
	if len(n.runs.all)+len(n.adoption.unadopted) > 0 || n.adoption.unscanned != nil {
		n.Log.Warn().Int("runs", len(n.runs.all)).Msg("stays in the cluster until its lease expires: something still runs here, or may")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.Context()), store.DefaultCallTimeout)
	defer cancel()
	if err := n.gossip.Leave(); err != nil {
		n.Log.Warn().Err(err).Msg("gossip: cannot say goodbye")
	}
	n.writer.leave(ctx)
	if err := n.store.Revoke(ctx, n.session.presence.lease); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return n.data.dropLease()
}

// firstError keeps the first error of several goroutines.
type firstError struct {
	once sync.Once
	err  error
}

// set keeps an error and ends everything because of it. Read err once all have ended.
func (f *firstError) set(err error, end func()) {
	if err != nil {
		f.once.Do(func() { f.err = err })
		end()
	}
}
