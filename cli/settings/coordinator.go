package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/service"
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
	// MinInterval keeps decisions apart by more than a rescale of a small job takes.
	MinInterval = 100 * time.Millisecond
	// defaultMigrations repairs a fragmented cluster step by step, as each move stops a job for a while.
	defaultMigrations = 1
	// etcdPatience is how long a coordinator waits for etcd before it says so and tries again.
	etcdPatience = 10 * time.Second
	// DefaultCluster is the name of a cluster whose owner has not given it one.
	DefaultCluster = "bellows"
	// DefaultPolicy is the policy of a coordinator that is not told one.
	DefaultPolicy = policy.Default
)

// Coordinator are what the coordinator is told.
type Coordinator struct {
	cluster, policy, name, tlsDir     string
	interval, keepJobs, keepResumable time.Duration
	maxTxnOps, keepCheckpoints        int
	migrations                        int
	noNewPrivs                        bool
	etcd                              *etcdFlags
	embedded                          *embeddedFlags
	users                             *userFlags
	scraping                          *scraping
}

// NewCoordinator declares the settings of a coordinator as flags.
func NewCoordinator(f *flags.Set) *Coordinator {
	c := &Coordinator{}
	c.etcd = newEtcdFlags(f)
	f.Lookup("etcd").Usage += "; or embedded: this coordinator runs it"
	c.embedded = newEmbeddedFlags(f)
	f.StringVar(&c.tlsDir, "tls-dir", "", "this server's certificates, as 'bellows tls issue' makes them: for an etcd at https:// addresses, and for an embedded one")
	f.StringVar(&c.cluster, "cluster", DefaultCluster, "the cluster's name; an etcd that holds another one is refused")
	f.StringVar(&c.name, "name", "", "name of this candidate, for people (default: the host name)")
	f.StringVar(&c.policy, "policy", DefaultPolicy, "how devices are shared out: "+policy.Usage())
	f.DurationVar(&c.interval, "interval", lead.DefaultInterval, "time between decisions that may move running jobs")
	f.IntVar(&c.migrations, "migrations", defaultMigrations, "how many running jobs may be moved in an interval, at the size that they have, so that others are closer together; 0 = none")
	f.IntVar(&c.maxTxnOps, "max-txn-ops", record.DefaultMaxTxnOps, "operations that etcd takes in one transaction: what etcd's own --max-txn-ops says")
	f.IntVar(&c.keepCheckpoints, "keep-checkpoints", coordinator.DefaultKeepCheckpoints, "how many committed checkpoints of each job are kept; at least 2, one to fall back to")
	f.DurationVar(&c.keepJobs, "keep-jobs", coordinator.DefaultTiming().Retention, "how long a job that has ended can be looked at; its checkpoints stay on disk")
	f.DurationVar(&c.keepResumable, "keep-resumable", coordinator.DefaultTiming().Resumable, fmt.Sprintf(
		"how long a job that was stopped or has failed can be resumed if it has a checkpoint, where that is longer than --keep-jobs: its spec, state and "+
			"checkpoints are remembered, of the newest %d such jobs; what it has on disk stays in any case", coordinator.DefaultKeepResumable))
	f.BoolVar(&c.noNewPrivs, "no-new-privs", false, "have all jobs that are submitted from now on run as with bellows run --no-new-privs")
	c.users = newUserFlags(f)
	c.scraping = scrapingFlag(f)
	return c
}

// Complete returns a candidate that can run: what the settings say, completed by what this server says.
func (c *Coordinator) Complete(log zerolog.Logger) (service.Candidate, error) {
	k, err := c.config(log)
	if err != nil {
		return k, permanent(err)
	}
	if k.Lead.Node == "" {
		if k.Lead.Node, err = os.Hostname(); err != nil {
			return k, fmt.Errorf("find host name: %w: set --name", err)
		}
	}
	if err := c.identify(&k); err != nil {
		return k, permanent(err)
	}
	return k, nil
}

// config is what the flags say, with the files read.
func (c *Coordinator) config(log zerolog.Logger) (service.Candidate, error) {
	timing := coordinator.DefaultTiming()
	timing.Retention, timing.Resumable = c.keepJobs, c.keepResumable
	k := service.Candidate{Cluster: c.cluster, Metrics: c.scraping.address, Lead: lead.Config{
		Interval: c.interval, Migrations: c.migrations, MaxTxnOps: c.maxTxnOps, Timing: timing, KeepCheckpoints: c.keepCheckpoints, Node: c.name, Log: log,
	}}
	var bad fault.List
	var err error
	k.Etcd, k.Member, err = c.which(k.Lead.Log)
	bad.Add(err)
	k.Etcd.DialTimeout, k.Etcd.MaxTxnOps, k.Etcd.Log = etcdPatience, c.maxTxnOps, k.Lead.Log
	if k.Lead.Policy, err = policy.ByName(c.policy); err != nil {
		bad.Add(fault.Usage("--%w", err))
	}
	limits, err := c.users.limits()
	bad.Add(err)
	k.Lead.Limits, k.Lead.NoNewPrivs = &limits, c.noNewPrivs
	bad.Add(c.scraping.check())
	if c.name != "" {
		if err = cluster.CheckName(c.name); err != nil {
			bad.Add(fault.Usage("--name %s", strings.TrimPrefix(err.Error(), "name ")))
		}
	}
	if c.interval < MinInterval {
		bad.Add(fault.Usage("--interval %s: use %s or more", c.interval, MinInterval))
	}
	if c.maxTxnOps < coordinator.LeastTxnOps {
		bad.Add(fault.Usage("--max-txn-ops %d: use %d or more, here and as etcd's own --max-txn-ops", c.maxTxnOps, coordinator.LeastTxnOps))
	}
	if c.keepCheckpoints < coordinator.LeastKeepCheckpoints {
		bad.Add(fault.Usage("--keep-checkpoints %d: use %d or more: a damaged one is given up for the one before", c.keepCheckpoints, coordinator.LeastKeepCheckpoints))
	}
	if c.migrations < 0 {
		bad.Add(fault.Usage("--migrations %d: use 1 or more, or 0 for none", c.migrations))
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
func (c *Coordinator) which(log zerolog.Logger) (store.Config, *server.Config, error) {
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
func (c *Coordinator) identify(k *service.Candidate) error {
	name := k.Lead.Node
	if k.Member != nil {
		named, err := c.embedded.config(name)
		if err != nil {
			return err
		}
		k.Member.Member, k.Member.Client = named.Member, named.Client
	}
	if c.tlsDir == "" {
		return nil
	}
	identity, err := trust.Load(c.tlsDir, cluster.NodeID(name))
	if err != nil {
		return err
	}
	k.Identity = identity
	if k.Member == nil {
		k.Etcd = trusting(k.Etcd, identity)
		return nil
	}
	k.Member.TLS, k.Etcd.TLS = memberTLS(c.tlsDir), identity.Any()
	return identity.CheckEtcd()
}
