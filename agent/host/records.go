package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The parts of the records that are followed, each listed and watched by itself.
const selfPart = "self"

func jobPart(j cluster.JobID) string { return "job " + string(j) }

func genPart(jg record.JobGen) string { return fmt.Sprintf("gen %s/%d", jg.Job, jg.Generation) }

func peersPart(jg record.JobGen) string { return fmt.Sprintf("peers %s/%d", jg.Job, jg.Generation) }

// savesPart is what a job has committed, followed on rank 0's node.
func savesPart(j cluster.JobID) string { return fmt.Sprintf("checkpoints %s", j) }

// records are what was read of etcd: this node's own subtree and the
// generations that concern it, each part as its own listings and watches
// brought it. The loop owns them.
type records struct {
	raw    map[string]record.KV
	mirror *record.Mirror
	listed map[string]int64 // the parts that were listed at least once, and as of when they are known
	node   cluster.NodeID   // this one
	log    zerolog.Logger
}

func newRecords(node cluster.NodeID, log zerolog.Logger) *records {
	r := &records{raw: map[string]record.KV{}, listed: map[string]int64{}, node: node, log: log}
	r.rebuild()
	return r
}

// list takes a listing of a part in: what it lacks and was written before it is gone.
func (r *records) list(part string, prefixes []string, kvs []record.KV, revision int64) {
	present := map[string]bool{}
	for _, kv := range kvs {
		present[kv.Key] = true
		r.change(record.Change{KV: kv})
	}
	for _, key := range slices.Sorted(maps.Keys(r.raw)) {
		if within(key, prefixes) && !present[key] && r.raw[key].ModRevision <= revision {
			r.change(record.Change{KV: record.KV{Key: key, ModRevision: revision}, Deleted: true})
		}
	}
	r.listed[part] = revision
}

// known reports whether a part was listed.
func (r *records) known(part string) bool { return r.listed[part] != 0 }

// seen notes that a part is known as of a revision.
func (r *records) seen(part string, revision int64) {
	r.listed[part] = max(r.listed[part], revision)
}

// change takes one change in; what is older than what is known is ignored.
func (r *records) change(c record.Change) {
	if c.ModRevision < r.raw[c.Key].ModRevision {
		return
	}
	if c.Deleted {
		delete(r.raw, c.Key)
	} else {
		r.raw[c.Key] = c.KV
	}
	// A record that this version cannot read concerns one job at most; the
	// others go on.
	if _, err := r.mirror.Apply(c); err != nil {
		r.log.Error().Err(err).Msg("left a record out")
	}
}

// forget drops a part that is no longer followed, so that an old listing of it
// is never taken for a new one.
func (r *records) forget(part string, prefixes []string) {
	delete(r.listed, part)
	maps.DeleteFunc(r.raw, func(key string, _ record.KV) bool { return within(key, prefixes) })
	r.rebuild()
}

// rebuild makes the typed view anew, without the memory of what was deleted.
func (r *records) rebuild() {
	mirror, err := record.NewMirror(nil, 0)
	if err != nil {
		panic("host: an empty mirror: " + err.Error())
	}
	r.mirror = mirror
	for _, key := range slices.Sorted(maps.Keys(r.raw)) {
		if _, err := mirror.Apply(record.Change{KV: r.raw[key]}); err != nil {
			r.log.Error().Err(err).Msg("left a record out")
		}
	}
}

func within(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// ownerOf is whose a job is, by its spec; nil if that is not there any more, or was
// not read yet.
func (r *records) ownerOf(jg record.JobGen) *cluster.Owner {
	spec := r.mirror.Job(jg.Job).Spec
	if !spec.Exists() {
		return nil
	}
	return &spec.Value.Owner
}

func (r *records) planOf(jg record.JobGen) record.Versioned[record.Plan] {
	return r.mirror.Job(jg.Job).Generation(jg.Generation).Plan
}

// granted reports whether devices of this node are granted to the generation.
func (r *records) granted(jg record.JobGen) bool {
	grant := r.self().Grants[jg.Job]
	return grant.Exists() && grant.Value.Generation == jg.Generation
}

// said is how far this node has said to have prepared a generation; absent if it has not.
func (r *records) said(jg record.JobGen) record.Versioned[record.Ready] {
	if ready := r.self().Ready[jg.Job]; ready.Value.Generation == jg.Generation {
		return ready
	}
	return record.Versioned[record.Ready]{}
}

// preparing reports whether this node is asked to prepare a generation, or has said that it does.
func (r *records) preparing(jg record.JobGen) bool {
	next := r.self().Next[jg.Job]
	return next.Exists() && next.Value.Generation == jg.Generation || r.said(jg).Exists()
}

// nonceOf returns the nonce of a generation's plan or, while it has no plan, of its preparation.
func (r *records) nonceOf(jg record.JobGen) string {
	if plan := r.planOf(jg); plan.Exists() {
		return plan.Value.World.Nonce
	}
	return r.said(jg).Value.Nonce
}

// acks are what this node has acknowledged of a generation.
func (r *records) acks(jg record.JobGen) record.Acks { return agent.AcksOf(r.mirror, r.node, jg) }

// self is this node's own records.
func (r *records) self() *record.NodeView { return r.mirror.Node(r.node) }
