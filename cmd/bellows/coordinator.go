package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/coordinator/lead"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

const (
	// minInterval keeps decisions apart by more than a rescale of a small job takes.
	minInterval = 100 * time.Millisecond
	// etcdPatience is how long a coordinator waits for etcd before it says so and tries again.
	etcdPatience   = 10 * time.Second
	defaultCluster = "bellows"
)

func coordinatorCommand() *cobra.Command { return coordinatorDaemon().cmd }

// coordinatorFlags are what the coordinator is told.
type coordinatorFlags struct {
	cluster, policy, name      string
	interval, keepJobs         time.Duration
	maxTxnOps, keepCheckpoints int
	etcd                       *etcdFlags
}

func coordinatorDaemon() daemon {
	c := &coordinatorFlags{}
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Run a candidate for leading the cluster",
		Long: `Runs a coordinator until it is ended by a signal. Of several, one leads and the
others wait to take over. Messages are JSON lines on stderr.`,
		Args: exactly(),
	}
	f := cmd.Flags()
	c.etcd = newEtcdFlags(f)
	f.StringVar(&c.cluster, "cluster", defaultCluster, "the cluster's name; an etcd that holds another one is refused")
	f.StringVar(&c.name, "name", "", "name of this candidate, for people (default: the host name)")
	f.StringVar(&c.policy, "policy", devPolicy, "how devices are shared out: "+strings.Join(policy.Names(), ", "))
	f.DurationVar(&c.interval, "interval", lead.DefaultInterval, "time between decisions that may move running jobs")
	f.IntVar(&c.maxTxnOps, "max-txn-ops", record.DefaultMaxTxnOps, "operations that etcd takes in one transaction: what etcd's own --max-txn-ops says")
	f.IntVar(&c.keepCheckpoints, "keep-checkpoints", coordinator.DefaultKeepCheckpoints, "how many committed checkpoints of each job are kept; at least 2, one to fall back to")
	f.DurationVar(&c.keepJobs, "keep-jobs", coordinator.DefaultTiming().Retention, "how long a job that has ended can be looked at; its checkpoints stay on disk")
	withSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, etcd, err := c.config()
		if err != nil {
			return err
		}
		if cfg.Node == "" {
			if cfg.Node, err = os.Hostname(); err != nil {
				return fmt.Errorf("find host name: %w: set --name", err)
			}
		}
		ctx, stop := untilTerminated(cmd.Context())
		defer stop()
		return coordinate(ctx, cfg, etcd, c.cluster)
	}
	return daemon{cmd, func() error { _, _, err := c.config(); return err }}
}

// config is what the flags say, with the files read.
func (c *coordinatorFlags) config() (lead.Config, store.Config, error) {
	timing := coordinator.DefaultTiming()
	timing.Retention = c.keepJobs
	cfg := lead.Config{
		Interval: c.interval, MaxTxnOps: c.maxTxnOps, Timing: timing, KeepCheckpoints: c.keepCheckpoints, Node: c.name, Log: childLogger(),
	}
	etcd, err := c.etcd.config()
	if err != nil {
		return cfg, etcd, err
	}
	etcd.DialTimeout, etcd.MaxTxnOps, etcd.Log = etcdPatience, c.maxTxnOps, cfg.Log
	if cfg.Policy, err = policy.ByName(c.policy); err != nil {
		return cfg, etcd, usage("--%w", err)
	}
	switch {
	case c.interval < minInterval:
		err = usage("--interval %s: use %s or more", c.interval, minInterval)
	case c.maxTxnOps < coordinator.LeastTxnOps:
		err = usage("--max-txn-ops %d: use %d or more, here and as etcd's own --max-txn-ops", c.maxTxnOps, coordinator.LeastTxnOps)
	case c.keepCheckpoints < coordinator.LeastKeepCheckpoints:
		err = usage("--keep-checkpoints %d: use %d or more: a damaged one is given up for the one before", c.keepCheckpoints, coordinator.LeastKeepCheckpoints)
	case c.keepJobs <= 0:
		err = usage("--keep-jobs %s: use a positive duration, as in 24h", c.keepJobs)
	}
	return cfg, etcd, err
}

// coordinate leads, or waits to, until the context ends.
func coordinate(ctx context.Context, cfg lead.Config, etcd store.Config, name string) error {
	for cfg.Store == nil {
		st, err := store.Open(ctx, etcd)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrUnreachable):
			cfg.Log.Warn().Err(err).Strs("etcd", etcd.Endpoints).Msg("etcd does not answer, trying again")
		case err != nil:
			return err
		default:
			cfg.Store = st
		}
	}
	_, err := cfg.Store.EnsureMeta(ctx, name)
	if err == nil {
		defer alive(ctx, cfg.Log)()
		err = lead.Run(ctx, cfg)
	}
	return errors.Join(err, cfg.Store.Close())
}
