package coordinator

import (
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// view is what the records say: the mirror, and what is derived from it. Its only
// operations are to take in a change and to answer a question. A change
// invalidates what was derived from the node or the job that it touched; that is
// derived again when it is next asked for. See ADR 42.
type view struct {
	without Rule
	noCache bool
	mirror  *record.Mirror // nil until a listing was taken in
	known   record.Known
	listed  int64  // revision of the newest listing
	awaited int64  // revision that a listing has to have reached where nothing is known
	version uint64 // of all that decisions are made from
	byNode  nodeIndex
	byJob   jobIndex
	next    nodeSets // where nodes are asked to prepare a job's next generation
	begun   nodeSets // where processes of such a preparation may exist
}

func newView(cfg *Config) *view {
	return &view{without: cfg.Without, noCache: cfg.NoCache, known: record.Known{}, byNode: newNodeIndex(), byJob: newJobIndex(), next: nodeSets{}, begun: nodeSets{}}
}

// rule reports whether r is in force.
func (v *view) rule(r Rule) bool { return v.without&r == 0 }

// loaded reports whether a listing was taken in.
func (v *view) loaded() bool { return v.mirror != nil }

// load brings the mirror up to a listing, and returns the records that could not
// be read. What it knows of later revisions stays: the leader's own writes may be
// newer than the listing, and without them devices just granted would look free.
func (v *view) load(e Loaded) (unreadable []error) {
	if v.mirror != nil && v.restored(e) {
		v.drop(e.Revision)
	}
	if v.mirror == nil {
		mirror, err := record.NewMirror(nil, 0)
		if err != nil {
			panic("coordinator: an empty listing does not decode: " + err.Error())
		}
		v.mirror = mirror
	}
	take := func(ch record.Change) {
		if err := v.apply(ch); err != nil {
			unreadable = append(unreadable, err)
		}
	}
	present := make(map[string]bool, len(e.KVs))
	for _, kv := range e.KVs {
		present[kv.Key] = true
		if v.known.Revision(kv.Key) < kv.ModRevision {
			take(record.Change{KV: kv})
		}
	}
	for _, key := range v.known.Until(e.Revision) {
		if !present[key] {
			take(record.Change{KV: record.KV{Key: key, ModRevision: e.Revision}, Deleted: true})
		}
	}
	v.awaited = 0
	v.mirror.Revision = max(v.mirror.Revision, e.Revision)
	v.listed = max(v.listed, e.Revision)
	return unreadable
}

// leap is more than revisions grow between two of which a leader hears, one after the
// other. "bellows etcd restore" has them grow by twice as much.
const leap = 500_000_000

// leaps reports whether a revision is so far beyond all that is known that etcd
// was restored from a backup.
func (v *view) leaps(revision int64) bool {
	return v.rule(SameTimeline) && v.loaded() && revision >= v.mirror.Revision+leap
}

// restored reports whether a listing is of an etcd that was restored from a backup.
// A leader's term may outlive that, as its key is in the backup: see ADR 38. Its revision leaps, or is older than that of the
// last listing, or it shows a key as it was before a write or a deletion that is
// known and older than the listing.
func (v *view) restored(e Loaded) bool {
	if !v.rule(SameTimeline) {
		return false
	}
	return v.leaps(e.Revision) || e.Revision < v.listed || slices.ContainsFunc(e.KVs, func(kv record.KV) bool {
		known := max(v.known.Revision(kv.Key), v.mirror.DeletedAt(kv.Key))
		return kv.ModRevision < known && known <= e.Revision
	})
}

// drop forgets all records, until the next listing that has reached a revision.
func (v *view) drop(revision int64) {
	v.awaited = max(v.awaited, revision)
	if !v.loaded() {
		return
	}
	known := append(v.byJob.derived, slices.Sorted(maps.Keys(v.byJob.all))...) // some are gone with what was lost
	v.mirror, v.known, v.listed, v.byNode, v.byJob = nil, record.Known{}, 0, newNodeIndex(), newJobIndex()
	v.next, v.begun = nodeSets{}, nodeSets{}
	v.byJob.derived = known
	v.version++
}

// apply takes one change in. A record that this version cannot read is an error, and left alone.
func (v *view) apply(ch record.Change) error {
	was := v.decidable(record.Locate(ch.Key).Job)
	at, err := v.mirror.Apply(ch)
	v.known.Take(ch)
	if was != v.decidable(at.Job) {
		v.byNode.current = false // the devices that it holds can be decided about, or no longer
	}
	switch at.Kind.Derived() {
	case record.OfNothing:
		return err
	case record.OfNext:
		v.next.note(at, v.mirror.Node(at.Node).Next[at.Job].Exists())
		return err // no decision is made from where a job is prepared
	case record.OfReady:
		v.begun.note(at, v.mirror.Node(at.Node).Ready[at.Job].Value.Begun)
		return err // nor from what prepares it
	case record.OfGrant:
		v.byNode.invalidateGrants(at.Node)
		v.byJob.invalidate(at.Job)
	case record.OfNode:
		v.byNode.invalidate(at.Node)
		if v.byNode.alone(v.mirror.Node(at.Node)) {
			v.byJob.invalidateAll()
		} else {
			v.byJob.invalidateMembers(at.Node)
		}
	case record.OfJob:
		if at.Job != "" { // an unknown key may be of no job
			v.byJob.invalidate(at.Job)
		}
	case record.OfCluster: // nothing is kept of it
	}
	v.version++
	return err
}

// decidable reports whether something can be decided about what a job holds.
func (v *view) decidable(id cluster.JobID) bool { return decidable(v.mirror, id) }

// forget takes in that everything below a prefix was deleted.
func (v *view) forget(prefix string, revision int64) (unreadable []error) {
	for _, key := range v.known.Below(prefix) {
		if err := v.apply(record.Change{KV: record.KV{Key: key, ModRevision: revision}, Deleted: true}); err != nil {
			unreadable = append(unreadable, err)
		}
	}
	return unreadable
}

// forgetDerived has everything derived again.
func (v *view) forgetDerived() {
	v.byNode.invalidateAll()
	v.byJob.invalidateAll()
}

// node returns what is recorded below a node, an empty view if nothing is.
func (v *view) node(id cluster.NodeID) *record.NodeView { return v.mirror.Node(id) }

// paused returns the record that pauses the cluster, if there is one.
func (v *view) paused() record.Versioned[record.Paused] { return v.mirror.Paused }

// nodes returns the node index.
func (v *view) nodes() *nodeIndex {
	v.byNode.refresh(v.mirror)
	return &v.byNode
}

// live returns what decisions may know of the nodes that are alive, sorted.
func (v *view) live() []cluster.Node { return v.nodes().live }

// perNode is how many devices the largest node that is alive has.
func (v *view) perNode() int { return v.nodes().most }

// alone reports whether no node but this belongs to the cluster. Such a node does
// not fence itself, as no other could take its work over: when it comes back in
// another life its workers are still there, and there is nothing to halt. See ADR 15.
func (v *view) alone(n cluster.NodeID) bool {
	for id, other := range v.mirror.Nodes {
		if id != n && other.Belongs() {
			return false // most often the first or the second
		}
	}
	return true
}

// acks returns what a node has acknowledged of the job's newest generation.
func (v *view) acks(j *job, n cluster.NodeID) record.Acks {
	node := v.mirror.Node(n)
	if all := node.Acks[record.JobGen{Job: j.ID, Generation: j.number()}]; all != nil && !v.rule(SameTimeline) {
		return *all
	}
	return node.Ack(j.ID, j.number(), j.world().Nonce)
}

// grantedTo reports whether a member of a generation has its grant.
func (v *view) grantedTo(m cluster.Member, job cluster.JobID, g cluster.Generation) bool {
	have := v.mirror.Node(m.Node).Grants[job]
	return have.Exists() && have.Value.Generation == g
}

// nodeSets are for each job the nodes that have something of it.
type nodeSets map[cluster.JobID]map[cluster.NodeID]bool

// note notes whether a node has it.
func (sets nodeSets) note(at record.Place, has bool) {
	if has {
		if sets[at.Job] == nil {
			sets[at.Job] = map[cluster.NodeID]bool{}
		}
		sets[at.Job][at.Node] = true
		return
	}
	delete(sets[at.Job], at.Node)
	if len(sets[at.Job]) == 0 {
		delete(sets, at.Job)
	}
}
