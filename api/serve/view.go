package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// retryEvery is how long a view waits before it lists again after its watch
// ended. Constant: there is one view an agent, and a list is cheap.
const retryEvery = 500 * time.Millisecond

// view is a mirror of all records, kept by watching, that many goroutines read.
type view struct {
	kv    KV
	watch WatchFunc
	log   zerolog.Logger

	mu      sync.Mutex
	mirror  *record.Mirror // nil until the first listing
	problem error          // why the mirror is not current; nil while it is
	changed chan struct{}  // closed, and replaced, at each change
}

func newView(cfg Config) *view {
	return &view{
		kv: cfg.KV, watch: cfg.Watch, log: cfg.Log, changed: make(chan struct{}),
		problem: errors.New("the agent has not read the records yet"),
	}
}

// run keeps the mirror until the context ends.
func (v *view) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := v.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		v.log.Warn().Err(err).Msg("the watch of the records ended; listing again")
		v.setProblem(err)
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

func (v *view) follow(ctx context.Context) error {
	kvs, revision, err := v.kv.Range(ctx, record.Root)
	if err != nil {
		return err
	}
	mirror, err := record.NewMirror(nil, revision)
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		v.apply(mirror, record.Change{KV: kv})
	}
	v.mu.Lock()
	v.mirror, v.problem = mirror, nil
	v.announceLocked()
	v.mu.Unlock()
	return v.watch(ctx, revision+1, func(changes []record.Change) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, c := range changes {
			v.apply(mirror, c)
		}
		if len(changes) > 0 {
			v.announceLocked()
		}
	})
}

// apply takes a change in. A record that this version cannot read is a
// nuisance to one job at most, so it is logged and left out.
func (v *view) apply(mirror *record.Mirror, c record.Change) {
	if _, err := mirror.Apply(c); err != nil {
		v.log.Warn().Err(err).Msg("left out of what is shown")
	}
}

func (v *view) setProblem(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.problem = err
	v.announceLocked()
}

func (v *view) announceLocked() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// read calls f with the mirror, which f must not keep, and returns a channel
// that is closed once something has changed since. While etcd is out of reach
// the last snapshot is still read; before the first one, the answer is Unavailable.
func (v *view) read(f func(*record.Mirror)) (<-chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mirror == nil {
		return v.changed, api.Fault(api.Unavailable, "the agent does not reach etcd: %s", v.problem)
	}
	f(v.mirror)
	return v.changed, nil
}

// job reads one job and returns a channel that is closed when something has changed since.
func (v *view) job(ref string, who cluster.Owner) (status api.JobStatus, changed <-chan struct{}, err error) {
	var found bool
	changed, err = v.read(func(m *record.Mirror) { status, found = findJob(m, ref, who) })
	if err == nil && !found {
		err = api.Fault(api.NotFound, "there is no job %.80q: `bellows ps --all` lists all of them", ref)
	}
	return status, changed, err
}

// mayReadLogs refuses a job that does not exist and a caller who may not read its logs.
func (v *view) mayReadLogs(job cluster.JobID, who cluster.Owner) error {
	var owner cluster.Owner
	var known bool
	if _, err := v.read(func(m *record.Mirror) { owner, known = ownerOf(m, job) }); err != nil {
		return err
	}
	if !known {
		return api.Fault(api.NotFound, "there is no job %.80q", job)
	}
	if !mayRead(who, owner.UID) {
		return api.Fault(api.Forbidden, "job %s belongs to %s: only its owner or root may read its logs", job, owner.User)
	}
	return nil
}

// agents returns the nodes that are in the cluster, of those wanted, and where their agents answer.
func (v *view) agents(wanted func(cluster.NodeID) bool) map[cluster.NodeID]string {
	nodes := map[cluster.NodeID]string{}
	// A view that was never read has no nodes, and its error has been told.
	_, _ = v.read(func(m *record.Mirror) {
		for id, n := range m.Nodes {
			if n.Alive.Exists() && wanted(id) {
				nodes[id] = n.Alive.Value.API
			}
		}
	})
	return nodes
}

// allowed returns the limits that the leader keeps users to, or the defaults while nothing is known.
func (v *view) allowed() record.Limits {
	limits := record.DefaultLimits()
	_, _ = v.read(func(m *record.Mirror) { limits = m.Allowed() })
	return limits
}

// exempt reports whether no user's bounds are for this one.
func (v *view) exempt(uid uint32) bool { return uid == ownUID() || v.allowed().Exempts(uid) }
