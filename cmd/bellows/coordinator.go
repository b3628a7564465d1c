package main

import (
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

func coordinatorCommand() *cobra.Command {
	var etcd []string
	var clusterName, policyName, name string
	var interval, keepJobs time.Duration
	var maxTxnOps, keepCheckpoints int
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Run a candidate for leading the cluster",
		Long: `Runs a coordinator until it is ended by a signal. Of several, one leads and the
others wait to take over. Messages are JSON lines on stderr.`,
		Args: exactly(),
	}
	f := cmd.Flags()
	f.StringSliceVar(&etcd, "etcd", []string{localEtcd}, "host:port of etcd; several separated by commas")
	f.StringVar(&clusterName, "cluster", defaultCluster, "the cluster's name; an etcd that holds another one is refused")
	f.StringVar(&name, "name", "", "name of this candidate, for people (default: the host name)")
	f.StringVar(&policyName, "policy", devPolicy, "how devices are shared out: "+strings.Join(policy.Names(), ", "))
	f.DurationVar(&interval, "interval", lead.DefaultInterval, "time between decisions that may move running jobs")
	f.IntVar(&maxTxnOps, "max-txn-ops", record.DefaultMaxTxnOps, "operations that etcd takes in one transaction: what etcd's own --max-txn-ops says")
	f.IntVar(&keepCheckpoints, "keep-checkpoints", coordinator.DefaultKeepCheckpoints, "how many committed checkpoints of each job are kept; at least 2, one to fall back to")
	f.DurationVar(&keepJobs, "keep-jobs", coordinator.DefaultTiming().Retention, "how long a job that has ended can be looked at; its checkpoints stay on disk")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := policy.ByName(policyName)
		if err != nil {
			return usage("--%w", err)
		}
		if interval < minInterval {
			return usage("--interval %s: use %s or more", interval, minInterval)
		}
		if maxTxnOps < coordinator.LeastTxnOps {
			return usage("--max-txn-ops %d: use %d or more, here and as etcd's own --max-txn-ops", maxTxnOps, coordinator.LeastTxnOps)
		}
		if keepCheckpoints < coordinator.LeastKeepCheckpoints {
			return usage("--keep-checkpoints %d: use %d or more: a damaged one is given up for the one before", keepCheckpoints, coordinator.LeastKeepCheckpoints)
		}
		if keepJobs <= 0 {
			return usage("--keep-jobs %s: use a positive duration, as in 24h", keepJobs)
		}
		timing := coordinator.DefaultTiming()
		timing.Retention = keepJobs
		if name == "" {
			if name, err = os.Hostname(); err != nil {
				return fmt.Errorf("find host name: %w: set --name", err)
			}
		}
		ctx, stop := untilTerminated(cmd.Context())
		defer stop()
		log := childLogger()
		var st *store.Store
		for st == nil {
			st, err = store.Open(ctx, store.Config{Endpoints: etcd, DialTimeout: etcdPatience, MaxTxnOps: maxTxnOps, Log: log})
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, store.ErrUnreachable):
				log.Warn().Err(err).Strs("etcd", etcd).Msg("etcd does not answer, trying again")
			case err != nil:
				return err
			}
		}
		if _, err = st.EnsureMeta(ctx, clusterName); err == nil {
			defer alive(ctx, log)()
			err = lead.Run(ctx, lead.Config{
				Store: st, Policy: p, Interval: interval, MaxTxnOps: maxTxnOps, Timing: timing, KeepCheckpoints: keepCheckpoints, Node: name, Log: log,
			})
		}
		return errors.Join(err, st.Close())
	}
	return cmd
}
