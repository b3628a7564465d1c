package service

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/host"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/lead"
	"github.com/bellows-ml/bellows/internal/metrics"
	"github.com/bellows-ml/bellows/store"
)

// Agent is an agent that is run: with its settings, and where it can be watched.
type Agent struct {
	Host    host.Config
	Metrics string // address at which they are served; empty = nowhere
}

// serveMetrics serves a set of metrics at an address while run runs.
func serveMetrics(ctx context.Context, address string, served watched, run func() error) error {
	ln, err := metrics.Listen(address)
	if err != nil {
		return err
	}
	served.log.Info().Str("address", ln.Addr().String()).Msg("metrics are served at /metrics")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // to the end of run, which may take its time
	var server sync.WaitGroup
	server.Go(func() {
		if failed := served.set.Serve(ctx, ln, served.log); failed != nil {
			served.log.Error().Err(failed).Msg("metrics are not served any more")
		}
	})
	err = run()
	cancel()
	server.Wait()
	return err
}

// watched is what a service serves its metrics with.
type watched struct {
	set *metrics.Set
	log zerolog.Logger
}

// RunAgent runs an agent until the context ends.
func RunAgent(ctx context.Context, a Agent) error {
	cfg := a.Host
	return watchCertificate(ctx, cfg.Identity, cfg.Log, func() error {
		if a.Metrics == "" {
			return host.Run(ctx, cfg)
		}
		m := metrics.NewAgent(Version())
		cfg.Etcd.Observe = etcdCalls(m.Set)
		if cfg.Identity != nil {
			m.Certificate(cfg.Identity.Ends)
		}
		cfg.Vitals = func(v host.Vitals) { m.Tell(nodeOf(v)) }
		log := cfg.Log.With().Str("node", string(cfg.Node)).Logger()
		return serveMetrics(ctx, a.Metrics, watched{m.Set, log}, func() error { return host.Run(ctx, cfg) })
	})
}

// RunCoordinator runs a coordinator until the context ends.
func RunCoordinator(ctx context.Context, k Candidate) error {
	return watchCertificate(ctx, k.Identity, k.Lead.Log, func() error {
		if k.Metrics == "" {
			return coordinate(ctx, k)
		}
		k.Lead.Window = lead.NewWindow()
		m := metrics.NewCoordinator(Version(), k.Lead.Window.Census)
		k.Lead.Observer = m
		k.Etcd.Observe = etcdCalls(m.Set)
		if k.Identity != nil {
			m.Certificate(k.Identity.Ends)
		}
		if k.Member != nil {
			m.WithEtcd()
		}
		return serveMetrics(ctx, k.Metrics, watched{m.Set, k.Lead.Log}, func() error { return coordinate(ctx, k) })
	})
}

func etcdCalls(set *metrics.Set) func(store.Call) {
	return func(c store.Call) { set.EtcdCall(c.Kind, c.Result, c.Took) }
}

// nodeOf is how an agent's node does, as metrics want it.
func nodeOf(v host.Vitals) metrics.Node {
	n := metrics.Node{
		InCluster: v.InCluster, Renewed: v.Renewed, Workers: v.Workers, Devices: v.Devices, Gossip: v.Gossip, GossipScore: v.GossipScore,
	}
	for _, r := range v.Readings {
		x := metrics.Reading{Device: cluster.DeviceID(r.ID), MemoryUsedBytes: &r.MemoryUsedBytes, TemperatureC: r.TemperatureC}
		if r.BusyPercent != nil {
			ratio := float64(*r.BusyPercent) / 100
			x.Busy = &ratio
		}
		n.Readings = append(n.Readings, x)
	}
	return n
}
