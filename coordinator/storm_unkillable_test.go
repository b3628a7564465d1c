package coordinator_test

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// unkillable is how long workers take to die of SIGKILL that do not.
const unkillable = -1

// stickWorker has the workers of a generation wait for a device in state D, so that
// SIGKILL does not end them for a while. Often their owner sees it, and stops the job
// without a save: else most are let go before anything has killed them.
func (s *storm) stickWorker(first *simNode) {
	for _, n := range append([]*simNode{first}, s.nodes...) {
		for _, sh := range n.Shims() {
			if !sh.Running() || s.stuck[sh] {
				continue
			}
			s.stuck[sh] = true
			s.note("workers of %s/%d on %s do not die", sh.Job, sh.Generation, n.Node)
			s.at(s.between(15*time.Second, 60*time.Second), func() { s.unstick(sh) })
			if s.chance(40) {
				s.at(s.between(0, 10*time.Second), func() { s.askToStop(n, sh.Job, true) })
			}
			return
		}
	}
}

func (s *storm) dies(sh *machine.Shim) time.Duration {
	if s.stuck[sh] {
		s.didOf(sh.JobGen, "SIGKILL survived")
		return unkillable
	}
	if sh.Parked() {
		return time.Duration(s.warm.IntN(400)) * time.Millisecond
	}
	return s.between(0, 400*time.Millisecond)
}

func (s *storm) unstick(sh *machine.Shim) {
	if s.stuck[sh] {
		delete(s.stuck, sh)
		sh.Release()
	}
}

// release lets all workers die that are to.
func (s *storm) release() {
	for _, n := range s.nodes {
		for _, sh := range append([]*machine.Shim(nil), n.Shims()...) {
			s.unstick(sh)
		}
	}
}

// countUnkillable counts what became of workers that did not die.
func (s *storm) countUnkillable(v *record.NodeView, jg record.JobGen) {
	acks := s.acks(v.ID, jg)
	if len(acks.Stopped.Value.Unkillable) == 0 {
		return
	}
	s.did("stopped beside an unkillable process")
	devices := map[cluster.DeviceID]bool{}
	for _, d := range v.Inventory.Value.Devices {
		devices[d.ID] = d.Health == cluster.Healthy
	}
	m, _, _ := s.mirror.Job(jg.Job).Generation(jg.Generation).Plan.Value.World.Member(v.ID)
	for _, d := range m.Devices {
		if devices[d] {
			s.fault("I3: %s says that %v has stopped, and gives away %s, which an unkillable process has", v.ID, jg, d)
		}
	}
}

// cleared: a node that has said that what it failed of is over does not stay excluded.
func (s *storm) checkCleared(v *record.JobView) {
	st := v.State.Value
	if st.Phase.Terminal() || st.Phase == cluster.Held {
		return
	}
	for _, n := range st.Passing {
		for g := st.Generation; g > 0; g-- {
			a := s.acks(n, record.JobGen{Job: v.ID, Generation: g})
			if a.Cleared.Exists() {
				s.fault("I9: %s is still kept from %s, which has said that what it failed of in generation %d is over", v.ID, n, g)
			}
			if a.Failed.Exists() {
				break
			}
		}
	}
}
