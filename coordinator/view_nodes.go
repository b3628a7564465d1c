package coordinator

import (
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// refusals returns the nodes on which the job must not start: those that have
// refused it, those that it does not want, and those that would not keep its limits
// or would let it gain rights.
func (v *view) refusals(j *job) refusals {
	demanded, excluded := v.refusedBy(j), j.State.Value.Excluded
	switch {
	case len(excluded) == 0:
		return demanded
	case len(demanded.why) == 0:
		return refusals{why: excluded, nodes: slices.Sorted(maps.Keys(excluded))}
	}
	why := maps.Clone(demanded.why)
	for n, reason := range excluded {
		if reason != "" || why[n] == "" {
			why[n] = reason
		}
	}
	return refusals{why: why, nodes: slices.Sorted(maps.Keys(why))}
}

// refusedBy returns the live nodes that do not meet what the job demands. Jobs that
// demand the same share the answer, until a node changes: with thousands of jobs
// and nodes the product is more than a Step can look at.
func (v *view) refusedBy(j *job) refusals {
	if j.demands == "" {
		return refusals{}
	}
	if known, ok := v.byNode.refused[j.demands]; ok && !v.noCache {
		return known
	}
	spec := &j.Spec.Value.Spec
	r := refusals{why: map[cluster.NodeID]string{}}
	for _, n := range v.live() {
		v.byNode.asked++
		why := spec.Where.Refuses(n)
		if alive := v.node(n.ID).Alive.Value; why == "" && spec.PerWorker != (cluster.Limits{}) && !alive.Limits {
			why = "its agent is of a version that knows no limits of workers: upgrade it"
		} else if why == "" && spec.NoNewPrivs && !alive.NoNewPrivs {
			why = "its agent is of a version that does not know --no-new-privs: upgrade it"
		}
		if why != "" {
			r.why[n.ID] = why
			r.nodes = append(r.nodes, n.ID)
		}
	}
	r.total, r.usable = v.nodes().devicesOf(r.nodes)
	r.counted = true
	if len(v.byNode.refused) > len(v.byJob.all) { // most are of jobs that are gone
		clear(v.byNode.refused)
	}
	v.byNode.refused[j.demands] = r
	return r
}

// refusedEverywhere reports whether nodes are alive and all of them refuse the job.
func (v *view) refusedEverywhere(j *job) bool {
	r := v.refusals(j)
	if len(r.why) == 0 {
		return false
	}
	live := v.live()
	return len(live) > 0 && !slices.ContainsFunc(live, func(n cluster.Node) bool {
		_, refused := r.why[n.ID]
		return !refused
	})
}
