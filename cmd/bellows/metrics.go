package main

import (
	"context"
	"sync"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/agent/host"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/lead"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/metrics"
	"github.com/bellows-ml/bellows/store"
)

// scraping is where a daemon can be scraped by Prometheus.
type scraping struct{ address string }

func scrapingFlag(f *pflag.FlagSet) *scraping {
	s := &scraping{}
	f.StringVar(&s.address, "metrics-address", "", "ip:port at which Prometheus can scrape /metrics, such as 127.0.0.1:9464; whoever reaches it can read them (default: nowhere)")
	return s
}

func (s *scraping) check() error {
	if s.address == "" {
		return nil
	}
	if err := metrics.CheckAddress(s.address); err != nil {
		return fault.Usage("--metrics-address %w", err)
	}
	return nil
}

// during serves a set, if it is to be, while run runs.
func (s *scraping) during(ctx context.Context, set *metrics.Set, log zerolog.Logger, run func() error) error {
	if s.address == "" {
		return run()
	}
	ln, err := metrics.Listen(s.address)
	if err != nil {
		return err
	}
	log.Info().Str("address", ln.Addr().String()).Msg("metrics are served at /metrics")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // to the end of run, which may take its time
	var server sync.WaitGroup
	server.Go(func() {
		if failed := set.Serve(ctx, ln, log); failed != nil {
			log.Error().Err(failed).Msg("metrics are not served any more")
		}
	})
	err = run()
	cancel()
	server.Wait()
	return err
}

// agent runs an agent that can be watched.
func (s *scraping) agent(ctx context.Context, cfg host.Config) error {
	if s.address == "" {
		return host.Run(ctx, cfg)
	}
	watched := metrics.NewAgent(version())
	cfg.Etcd.Observe = etcdCalls(watched.Set)
	if cfg.Identity != nil {
		watched.Certificate(cfg.Identity.Ends)
	}
	cfg.Vitals = func(v host.Vitals) { watched.Tell(nodeOf(v)) }
	return s.during(ctx, watched.Set, cfg.Log.With().Str("node", string(cfg.Node)).Logger(), func() error { return host.Run(ctx, cfg) })
}

// coordinator runs a coordinator that can be watched.
func (s *scraping) coordinator(ctx context.Context, k candidacy) error {
	if s.address == "" {
		return coordinate(ctx, k)
	}
	k.lead.Window = lead.NewWindow()
	watched := metrics.NewCoordinator(version(), k.lead.Window.Census)
	k.lead.Observer = watched
	k.etcd.Observe = etcdCalls(watched.Set)
	if k.identity != nil {
		watched.Certificate(k.identity.Ends)
	}
	if k.member != nil {
		watched.WithEtcd()
	}
	return s.during(ctx, watched.Set, k.lead.Log, func() error { return coordinate(ctx, k) })
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
