package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The parts of the records that are followed, each listed and watched by itself.
const selfPart = "self"

func jobPart(j cluster.JobID) string    { return "job " + string(j) }
func genPart(jg record.JobGen) string   { return fmt.Sprintf("gen %s/%d", jg.Job, jg.Generation) }
func peersPart(jg record.JobGen) string { return fmt.Sprintf("peers %s/%d", jg.Job, jg.Generation) }

func (n *node) wanted() map[string][]string {
	parts := map[string][]string{selfPart: {record.NodePrefix(n.cfg.Node)}}
	for _, jg := range n.current() {
		parts[jobPart(jg.Job)] = []string{record.SpecKey(jg.Job)}
		parts[genPart(jg)] = []string{record.GenerationPrefix(jg.Job, jg.Generation)}
		if n.leads(n.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan.Value.World) {
			parts[savesPart(jg.Job)] = []string{record.CheckpointsPrefix(jg.Job)}
		}
		if prefixes := n.peerPrefixes(jg); len(prefixes) > 0 {
			parts[peersPart(jg)] = prefixes
		}
	}
	return parts
}

// current are the generations that concern this node: granted to it, with a run
// here, or acknowledged and not yet stopped. Sorted.
func (n *node) current() []record.JobGen {
	set := map[record.JobGen]bool{}
	for jg := range n.runs {
		set[jg] = true
	}
	for job, grant := range n.self().Grants {
		set[generationOf(job, grant.Value.Generation)] = true
	}
	for jg, acks := range n.self().Acks {
		if begun := acks.Started.Exists() || acks.Held.Exists() || acks.Failed.Exists(); begun && !acks.Stopped.Exists() {
			set[jg] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), compareGenerations)
}

func compareGenerations(a, b record.JobGen) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Generation, b.Generation))
}

// peerPrefixes are where the other members of a generation write what this node
// has to know while it runs: their failures and ends, and on rank 0's node their
// saves; what that one has offered, all others.
func (n *node) peerPrefixes(jg record.JobGen) []string {
	plan := n.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan
	if !plan.Exists() || n.acks(jg).Stopped.Exists() {
		return nil
	}
	_, index, ours := plan.Value.World.Member(n.cfg.Node)
	if !ours {
		return nil
	}
	var prefixes []string
	for _, m := range plan.Value.World.Members {
		if m.Node == n.cfg.Node {
			continue
		}
		prefixes = append(prefixes, record.AckPrefix(m.Node, jg.Job, jg.Generation))
		if index == 0 {
			prefixes = append(prefixes, record.SavedPrefix(m.Node, jg.Job, jg.Generation))
		}
	}
	if index != 0 {
		prefixes = append(prefixes, record.OfferPrefix(plan.Value.World.Members[0].Node, jg.Job, jg.Generation))
	}
	return prefixes
}

// followGoals follows what concerns this node, and nothing else.
func (n *node) followGoals() {
	wanted := n.wanted()
	for part := range n.followers {
		if wanted[part] == nil {
			n.stopFollowing(part)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(wanted)) {
		if n.followers[part] == nil {
			n.startFollowing(part, wanted[part])
		}
	}
}

// desired is what the records say, for agent.Plan.
func (n *node) desired() agent.Desired {
	d := agent.Desired{Node: n.cfg.Node, AliveRev: n.presence.aliveRev, Strict: n.strict(), Deadline: n.deadline()}
	if !n.records.known(selfPart) {
		return d // nothing may be taken for absent
	}
	for _, jg := range n.current() {
		if n.runs[jg] != nil || n.unscanned == nil { // else it may have a run that is yet to be found
			d.Goals = append(d.Goals, n.goal(jg))
		}
	}
	for _, jg := range slices.SortedFunc(maps.Keys(n.collected), compareGenerations) {
		if n.runs[jg] == nil {
			d.Goals = append(d.Goals, agent.Goal{
				Job: jg.Job, Generation: jg.Generation, Read: true, Acks: n.acks(jg),
			})
		}
	}
	return d
}

// deadline is what shims are told to fence by: never, where no other node could
// take this one's place. 0, which changes nothing, as long as nothing is known.
func (n *node) deadline() int64 {
	switch {
	case n.crowd == 0 || !n.records.known(selfPart):
		return 0
	case !n.strict():
		return fence.Never
	default:
		return n.presence.deadline
	}
}

func (n *node) goal(jg record.JobGen) agent.Goal {
	job := n.records.mirror.Job(jg.Job)
	gen := job.Generation(jg.Generation)
	g := agent.Goal{
		Job: jg.Job, Generation: jg.Generation,
		Read:   n.records.known(genPart(jg)) && n.records.known(jobPart(jg.Job)),
		Spec:   value(job.Spec),
		Plan:   value(gen.Plan),
		Fresh:  n.fresh(jg, gen.Plan),
		Permit: gen.Permit.Exists(),
		Halt:   value(gen.Halt),
		Acks:   n.acks(jg),
		Saved:  values(n.self().Saved[jg]),
		Offers: values(n.self().Offers[jg]),
	}
	if g.Plan == nil {
		return g
	}
	nonce := g.Plan.World.Nonce
	g.Saved, g.Offers = values(record.Of(n.self().Saved[jg], nonce)), values(record.Of(n.self().Offers[jg], nonce))
	for _, m := range g.Plan.World.Members {
		if m.Node == n.cfg.Node {
			continue
		}
		view := n.records.mirror.Node(m.Node)
		acks := view.Ack(jg.Job, jg.Generation, nonce)
		fence := gen.Fences[m.Node]
		g.Peers = append(g.Peers, agent.Peer{
			Node: m.Node, Failed: value(acks.Failed), Gone: acks.Stopped.Exists() || fence.Exists(),
			Saved: values(record.Of(view.Saved[jg], nonce)), Offered: newest(record.Of(view.Offers[jg], nonce)),
		})
	}
	return g
}

// acks are what this node has acknowledged of a generation: of the one that is
// planned, or, of one that is not, of any of its number.
func (n *node) acks(jg record.JobGen) record.Acks {
	if plan := n.planOf(jg); plan.Exists() {
		return n.self().Ack(jg.Job, jg.Generation, plan.Value.World.Nonce)
	}
	if all := n.self().Acks[jg]; all != nil {
		return *all
	}
	return record.Acks{}
}

// newest is the highest step; 0 if there is none.
func newest[T any](m map[int64]T) (step int64) {
	for s := range m {
		step = max(step, s)
	}
	return step
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
