package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/rendezvous"
)

// read derives a job from its records and those of its nodes.
func (v *view) read(r *record.JobView) *job {
	j := &job{JobView: r, gen: r.Generations[r.State.Value.Generation], owner: r.Spec.Value.Owner.UID}
	if j.gen == nil {
		j.gen = &record.GenerationView{}
	}
	if j.gen.Plan.Exists() && !j.gen.Plan.Value.Of(j.ID, j.number()) {
		gen := *j.gen // a plan of another generation than its key, written by hand, is none
		gen.Plan = record.Versioned[record.Plan]{}
		j.gen = &gen
	}
	for _, m := range j.world().Members {
		j.roll = append(j.roll, v.attendance(j, m))
	}
	if r.Spec.Exists() {
		if spec := r.Scaled(); spec.CheckNumbers() == nil {
			j.sizes = fitting(spec.WorldSizes(), j.state().OutOfMemory)
		} else {
			j.unusable = "its numbers cannot be used: " + strings.ReplaceAll(spec.CheckNumbers().Error(), "\n", "; ")
		}
		j.demands = demandsOf(&r.Spec.Value.Spec)
	}
	if j.state().Phase.Active() {
		j.has = j.world().Allocation(j.ID)
		j.ungranted = v.ungranted(j)
		j.fault = v.fault(j)
	}
	j.regrants = v.misgranted(j)
	j.resumable = resumable(r)
	if j.state().Phase.Terminal() {
		j.kept = kept{1, r.Bytes()}
	}
	return j
}

func (v *view) attendance(j *job, m cluster.Member) rendezvous.Attendance {
	node := v.mirror.Node(m.Node)
	acks := v.acks(j, m.Node)
	a := rendezvous.Attendance{
		Node:     m.Node,
		Started:  acks.Started.Exists(),
		Failed:   acks.Failed.Exists(),
		Stopped:  acks.Stopped.Exists(),
		Finished: acks.Stopped.Value.Finished,
		Held:     acks.Held.Exists(),
		SDK:      acks.Held.Value.SDK,
		Begun:    acks.Held.Value.Begun,
		Lost:     node.Alive.Create != m.AliveRev && !v.alone(m.Node),
	}
	// A fenced node that is alive again has to say itself that nothing is left.
	a.Fenced = j.gen.Fences[m.Node].Exists() && (!node.Alive.Exists() || !v.rule(AliveAbsent))
	return a
}

// fault names a device of the world that is gone, or unsound in a job that need
// not keep it; empty if there is none.
func (v *view) fault(j *job) string {
	nodes := v.nodes()
	for _, m := range j.world().Members {
		for _, d := range m.Devices {
			switch healthy, there := nodes.health(deviceRef{m.Node, d}); {
			case !there:
				return fmt.Sprintf("device %s of %s is gone", d, m.Node)
			case !healthy && !j.state().Pinned && v.node(m.Node).Cordon.Value.Drain:
				return fmt.Sprintf("%s is drained: %s", m.Node, v.node(m.Node).Cordon.Value.Reason)
			case !healthy && !j.state().Pinned:
				return fmt.Sprintf("device %s of %s is unhealthy", d, m.Node)
			}
		}
	}
	return ""
}

// ungranted lists the devices of a live world that are not granted yet: they are
// the job's from the moment at which its plan was written.
func (v *view) ungranted(j *job) []deviceRef {
	if !v.rule(PlanHolds) {
		return nil
	}
	var out []deviceRef
	for _, m := range j.world().Members {
		if v.grantedTo(m, j.ID, j.number()) {
			continue
		}
		for _, d := range m.Devices {
			out = append(out, deviceRef{m.Node, d})
		}
	}
	return out
}

// fitting returns the sizes above one that ran out of memory: in a smaller world each
// worker's share is larger still. All of them where none is left, as after the owner
// has scaled the job.
func fitting(sizes []int, out int) []int {
	if i := slices.IndexFunc(sizes, func(k int) bool { return k > out }); i > 0 {
		return sizes[i:]
	}
	return sizes
}
