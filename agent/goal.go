package agent

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// GoalOf returns what the records say of one generation to a node. The caller
// adds what the records do not say: whether all of them were Read, and whether
// the generation is Fresh.
func GoalOf(m *record.Mirror, node cluster.NodeID, jg record.JobGen) Goal {
	job, own := m.Job(jg.Job), m.Node(node)
	gen := job.Generation(jg.Generation)
	g := Goal{
		Job: jg.Job, Generation: jg.Generation,
		Spec: value(job.Spec), Plan: value(gen.Plan), Permit: gen.Permit.Exists(), Halt: value(gen.Halt),
		Acks: AcksOf(m, node, jg),
	}
	grant := own.Grants[jg.Job]
	g.Granted = grant.Exists() && grant.Value.Generation == jg.Generation
	if next := own.Next[jg.Job]; next.Value.Generation == jg.Generation {
		g.Next = value(next)
	}
	if ready := own.Ready[jg.Job]; ready.Value.Generation == jg.Generation {
		g.Ready = value(ready)
	}
	if g.Plan == nil {
		g.Saved, g.Offers = values(own.Saved[jg]), values(own.Offers[jg])
		return g
	}
	nonce := g.Plan.World.Nonce
	g.Saved, g.Offers = values(record.Of(own.Saved[jg], nonce)), values(record.Of(own.Offers[jg], nonce))
	for _, member := range g.Plan.World.Members {
		if member.Node == node {
			continue
		}
		peer := m.Node(member.Node)
		acks := peer.Ack(jg.Job, jg.Generation, nonce)
		g.Peers = append(g.Peers, Peer{
			Node: member.Node, Failed: value(acks.Failed), Gone: acks.Stopped.Exists() || gen.Fences[member.Node].Exists(),
			Saved: values(record.Of(peer.Saved[jg], nonce)), Offered: max(0, newestStep(record.Of(peer.Offers[jg], nonce))),
		})
	}
	return g
}

// AcksOf returns what a node has acknowledged of a generation: of the one that is
// planned, or, of one that is not, of any generation of its number.
func AcksOf(m *record.Mirror, node cluster.NodeID, jg record.JobGen) record.Acks {
	own := m.Node(node)
	if plan := m.Job(jg.Job).Generation(jg.Generation).Plan; plan.Exists() {
		return own.Ack(jg.Job, jg.Generation, plan.Value.World.Nonce)
	}
	if all := own.Acks[jg]; all != nil {
		return *all
	}
	return record.Acks{}
}

// Concerns returns the generations that concern a node, sorted: those that are
// granted to it or that it is to prepare, that have a run there, and that it has said
// something of and not yet acknowledged as stopped.
func Concerns[R any](own *record.NodeView, runs map[record.JobGen]R) []record.JobGen {
	all := make([]record.JobGen, 0, len(runs)+len(own.Grants))
	for jg := range runs {
		all = append(all, jg)
	}
	for job, grant := range own.Grants {
		all = append(all, record.JobGen{Job: job, Generation: grant.Value.Generation})
	}
	for job, next := range own.Next {
		all = append(all, record.JobGen{Job: job, Generation: next.Value.Generation})
	}
	for job, ready := range own.Ready {
		all = append(all, record.JobGen{Job: job, Generation: ready.Value.Generation})
	}
	for jg, acks := range own.Acks {
		if begun := acks.Started.Exists() || acks.Held.Exists() || acks.Failed.Exists(); begun && !acks.Stopped.Exists() {
			all = append(all, jg)
		}
	}
	slices.SortFunc(all, Compare)
	return slices.Compact(all)
}

// Compare orders generations by job and number.
func Compare(a, b record.JobGen) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Generation, b.Generation))
}

func value[T any](v record.Versioned[T]) *T {
	if !v.Exists() {
		return nil
	}
	return &v.Value
}

func values[T any](m map[int64]record.Versioned[T]) map[int64]T {
	out := make(map[int64]T, len(m))
	for k, v := range m {
		out[k] = v.Value
	}
	return out
}
