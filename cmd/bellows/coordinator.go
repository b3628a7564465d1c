package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/coordinator/lead"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

const (
	// minInterval keeps decisions apart by more than a rescale of a small job takes.
	minInterval = 100 * time.Millisecond
	// etcdPatience is how long a coordinator waits for etcd before it says so and tries again.
	etcdPatience = 10 * time.Second
	// memberWithin bounds the end of an embedded etcd, whose leadership is handed over first.
	memberWithin   = 5 * time.Second
	defaultCluster = "bellows"
)

func coordinatorCommand() *cobra.Command { return coordinatorDaemon().cmd }

// coordinatorFlags are what the coordinator is told.
type coordinatorFlags struct {
	cluster, policy, name, tlsDir     string
	interval, keepJobs, keepResumable time.Duration
	maxTxnOps, keepCheckpoints        int
	noNewPrivs                        bool
	etcd                              *etcdFlags
	embedded                          *embeddedFlags
	users                             *userFlags
	scraping                          *scraping
}

// candidacy is what a coordinator does.
type candidacy struct {
	lead    lead.Config
	etcd    store.Config
	member  *server.Config // nil = etcd is somebody else's
	cluster string
	// identity is this server's; nil = it has none.
	identity *trust.Identity
}

func coordinatorDaemon() daemon {
	c, cmd := newCoordinator()
	return daemon{cmd, func() error { _, err := c.config(zerolog.Nop()); return err }}
}

func newCoordinator() (*coordinatorFlags, *cobra.Command) {
	c := &coordinatorFlags{}
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Run a candidate for leading the cluster",
		Long: `Runs a coordinator until it is ended by a signal. Of several, one leads and the
others wait to take over. Messages are JSON lines on stderr.

With --etcd embedded it also runs etcd, on this server alone or on three, each of
which runs a coordinator: see docs/etcd.md.`,
		Args: exactly(),
	}
	f := cmd.Flags()
	c.etcd = newEtcdFlags(f)
	f.Lookup("etcd").Usage += "; or embedded: this coordinator runs it"
	c.embedded = newEmbeddedFlags(f)
	f.StringVar(&c.tlsDir, "tls-dir", "", "this server's certificates, as 'bellows tls issue' makes them: for an etcd at https:// addresses, and for an embedded one")
	f.StringVar(&c.cluster, "cluster", defaultCluster, "the cluster's name; an etcd that holds another one is refused")
	f.StringVar(&c.name, "name", "", "name of this candidate, for people (default: the host name)")
	f.StringVar(&c.policy, "policy", devPolicy, "how devices are shared out: "+strings.Join(policy.Names(), ", "))
	f.DurationVar(&c.interval, "interval", lead.DefaultInterval, "time between decisions that may move running jobs")
	f.IntVar(&c.maxTxnOps, "max-txn-ops", record.DefaultMaxTxnOps, "operations that etcd takes in one transaction: what etcd's own --max-txn-ops says")
	f.IntVar(&c.keepCheckpoints, "keep-checkpoints", coordinator.DefaultKeepCheckpoints, "how many committed checkpoints of each job are kept; at least 2, one to fall back to")
	f.DurationVar(&c.keepJobs, "keep-jobs", coordinator.DefaultTiming().Retention, "how long a job that has ended can be looked at; its checkpoints stay on disk")
	f.DurationVar(&c.keepResumable, "keep-resumable", coordinator.DefaultTiming().Resumable, fmt.Sprintf(
		"how long a job that was stopped or has failed can be resumed if it has a checkpoint, where that is longer than --keep-jobs: its spec, state and "+
			"checkpoints are remembered, of the newest %d such jobs; what it has on disk stays in any case", coordinator.DefaultKeepResumable))
	f.BoolVar(&c.noNewPrivs, "no-new-privs", false, "have all jobs that are submitted from now on run as with bellows run --no-new-privs")
	c.users = newUserFlags(f)
	c.scraping = scrapingFlag(f)
	withSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, flush := serviceLogger()
		defer flush()
		k, err := c.config(log)
		if err != nil {
			return unmended(err)
		}
		if k.lead.Node == "" {
			if k.lead.Node, err = os.Hostname(); err != nil {
				return fmt.Errorf("find host name: %w: set --name", err)
			}
		}
		if err := c.identify(&k); err != nil {
			return unmended(err)
		}
		ctx, stop := untilTerminated(cmd.Context())
		defer stop()
		return minding(ctx, k.identity, k.lead.Log, func() error { return c.scraping.coordinator(ctx, k) })
	}
	return c, cmd
}

// config is what the flags say, with the files read.
func (c *coordinatorFlags) config(log zerolog.Logger) (candidacy, error) {
	timing := coordinator.DefaultTiming()
	timing.Retention, timing.Resumable = c.keepJobs, c.keepResumable
	k := candidacy{cluster: c.cluster, lead: lead.Config{
		Interval: c.interval, MaxTxnOps: c.maxTxnOps, Timing: timing, KeepCheckpoints: c.keepCheckpoints, Node: c.name, Log: log,
	}}
	var bad fault.List
	var err error
	k.etcd, k.member, err = c.which(k.lead.Log)
	bad.Add(err)
	k.etcd.DialTimeout, k.etcd.MaxTxnOps, k.etcd.Log = etcdPatience, c.maxTxnOps, k.lead.Log
	if k.lead.Policy, err = policy.ByName(c.policy); err != nil {
		bad.Add(fault.Usage("--%w", err))
	}
	limits, err := c.users.limits()
	bad.Add(err)
	k.lead.Limits, k.lead.NoNewPrivs = &limits, c.noNewPrivs
	bad.Add(c.scraping.check())
	if c.name != "" {
		if err = cluster.CheckName(c.name); err != nil {
			bad.Add(fault.Usage("--name %s", strings.TrimPrefix(err.Error(), "name ")))
		}
	}
	if c.interval < minInterval {
		bad.Add(fault.Usage("--interval %s: use %s or more", c.interval, minInterval))
	}
	if c.maxTxnOps < coordinator.LeastTxnOps {
		bad.Add(fault.Usage("--max-txn-ops %d: use %d or more, here and as etcd's own --max-txn-ops", c.maxTxnOps, coordinator.LeastTxnOps))
	}
	if c.keepCheckpoints < coordinator.LeastKeepCheckpoints {
		bad.Add(fault.Usage("--keep-checkpoints %d: use %d or more: a damaged one is given up for the one before", c.keepCheckpoints, coordinator.LeastKeepCheckpoints))
	}
	if c.keepResumable <= 0 {
		bad.Add(fault.Usage("--keep-resumable %s: use a positive duration, as in 336h", c.keepResumable))
	}
	if c.keepJobs <= 0 {
		bad.Add(fault.Usage("--keep-jobs %s: use a positive duration, as in 24h", c.keepJobs))
	}
	return k, bad.Err()
}

// which is the etcd to use, and to run.
func (c *coordinatorFlags) which(log zerolog.Logger) (store.Config, *server.Config, error) {
	e := c.embedded
	if !slices.Contains(c.etcd.endpoints, embeddedEtcd) {
		etcd, err := c.etcd.config()
		if err == nil && (len(e.members) > 0 || e.client != "" || e.dataDir != "" || e.plain) {
			err = fault.Usage("--etcd-members, --etcd-client, --etcd-plain and --data-dir are for --etcd embedded, and this one is at %s", strings.Join(c.etcd.endpoints, ","))
		}
		return etcd, nil, err
	}
	if len(c.etcd.endpoints) > 1 {
		return store.Config{}, nil, fault.Usage("--etcd %s: use embedded alone, or addresses", strings.Join(c.etcd.endpoints, ","))
	}
	if f := c.etcd; f.ca+f.cert+f.key+f.user+f.passwordFile != "" {
		return store.Config{}, nil, fault.Usage("--etcd embedded has no users, and takes its certificates from --tls-dir: leave the other --etcd-… settings out")
	}
	member, err := e.config(c.name)
	if err == nil {
		err = e.checkTLS(member, c.tlsDir)
	}
	if err == nil && member.DataDir == "" {
		member.DataDir, err = coordinatorData()
	}
	member.Name, member.MaxTxnOps, member.Log = c.cluster, c.maxTxnOps, log
	return store.Config{}, &member, err
}

// identify completes what depends on this server's name, which is known by now.
func (c *coordinatorFlags) identify(k *candidacy) error {
	name := k.lead.Node
	if k.member != nil {
		named, err := c.embedded.config(name)
		if err != nil {
			return err
		}
		k.member.Member, k.member.Client = named.Member, named.Client
	}
	if c.tlsDir == "" {
		return nil
	}
	identity, err := trust.Load(c.tlsDir, cluster.NodeID(name))
	if err != nil {
		return err
	}
	k.identity = identity
	if k.member == nil {
		k.etcd = trusting(k.etcd, identity)
		return nil
	}
	k.member.TLS, k.etcd.TLS = memberTLS(c.tlsDir), identity.Any()
	return identity.CheckEtcd()
}

// coordinate runs etcd if it is to, and leads, or waits to, until the context ends.
func coordinate(ctx context.Context, k candidacy) error {
	if k.member == nil {
		return campaign(ctx, k)
	}
	etcd, err := server.Start(ctx, *k.member)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	k.lead.Log.Info().Str("etcd", etcd.Endpoint()).Str("data", k.member.DataDir).Msg("etcd runs here")
	k.etcd.Endpoints = []string{etcd.Endpoint()}
	life, end := context.WithCancel(ctx)
	defer end()
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-etcd.Ended():
			end()
		case <-life.Done():
		}
	})
	select {
	case <-etcd.Ready():
		err = campaign(life, k)
	case <-life.Done():
	}
	end()
	watcher.Wait()
	select {
	case <-etcd.Ended():
		err = errors.Join(err, etcd.Err())
	default:
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberWithin)
	defer cancel()
	if closeErr := etcd.Close(closing); closeErr != nil {
		// What was answered is on disk, and the others notice.
		k.lead.Log.Warn().Err(closeErr).Msg("etcd takes long to end, going without")
	}
	return err
}

// campaign leads, or waits to, until the context ends.
func campaign(ctx context.Context, k candidacy) error {
	cfg := k.lead
	cfg.Log.Info().Strs("etcd", k.etcd.Endpoints).Msg("connecting to etcd")
	for cfg.Store == nil {
		st, err := store.Open(ctx, k.etcd)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrUnreachable):
			cfg.Log.Warn().Err(err).Strs("etcd", k.etcd.Endpoints).Msg("etcd does not answer, trying again")
		case err != nil:
			return err
		default:
			cfg.Store = st
		}
	}
	_, err := cfg.Store.EnsureMeta(ctx, k.cluster)
	if err == nil {
		defer alive(ctx, cfg.Log)()
		err = lead.Run(ctx, cfg)
	}
	if ctx.Err() != nil {
		err = nil // told to end, or etcd has
	}
	return errors.Join(err, cfg.Store.Close())
}
