package coordinator_test

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// seldom is a misfortune that strikes so many times in a hundred; "" if it does not.
func (s *storm) seldom(what string, percent int) string {
	if s.calm || s.warm.IntN(100) >= percent {
		return ""
	}
	s.did(what)
	return what
}

// prepares is how long a launcher takes, and whether it comes to anything.
func (n *simNode) prepares(*machine.Shim) (takes time.Duration, cold string) {
	n.s.did("generation prepared")
	return time.Duration(n.s.warm.IntN(4000)) * time.Millisecond, n.s.seldom("prepared to start cold", 30)
}

// losePrepared ends what waits for a plan, now and then: the launcher, or the shim itself; or what is beside it. By
// themselves misfortunes seldom meet a run that waits.
func (n *simNode) losePrepared() {
	for _, sh := range slices.Clone(n.Shims()) {
		switch {
		case !sh.Unbound():
		case n.s.seldom("launcher lost", 4) != "":
			sh.LoseLauncher()
		case n.s.seldom("prepared shim lost", 4) != "":
			sh.Crash()
		case !n.s.calm && n.s.warm.IntN(100) < 8:
			n.s.loseBeside(n, sh)
		}
	}
}

// losses are what is lost beside a run that waits; false where there is nothing to lose.
var losses = []struct {
	what string
	of   func(s *storm, n *simNode, waits *machine.Shim) bool
}{
	{"worker failed beside what waits", (*storm).failBeside},
	{"agent died beside what waits", func(s *storm, n *simNode, _ *machine.Shim) bool {
		was := n.AgentUp()
		s.crashAgent(n)
		return was && !n.AgentUp()
	}},
	{"agent died with what waits", func(s *storm, n *simNode, waits *machine.Shim) bool {
		was := n.AgentUp()
		s.crashAgent(n)
		waits.Crash()
		return was && !n.AgentUp() && !slices.Contains(n.Shims(), waits)
	}},
	{"machine lost with what waits", func(s *storm, n *simNode, _ *machine.Shim) bool {
		s.takeDown(n)
		return !n.Up()
	}},
}

func (s *storm) loseBeside(n *simNode, waits *machine.Shim) {
	if loss := losses[s.warm.IntN(len(losses))]; loss.of(s, n, waits) {
		s.did(loss.what)
	}
}

// failBeside has a worker of the job fail whose next generation waits, on whichever node.
func (s *storm) failBeside(_ *simNode, waits *machine.Shim) bool {
	for _, i := range s.warm.Perm(len(s.nodes)) {
		for _, sh := range s.nodes[i].Shims() {
			if sh.Job == waits.Job && sh.Running() {
				sh.Exit(1)
				return sh.Report().Failed != nil
			}
		}
	}
	return false
}

// countPrepared counts how workers of a generation with warm starts were executed.
func (s *storm) countPrepared(sh *machine.Shim) {
	switch {
	case sh.Report().Warm:
		s.did("warm start")
	case sh.Prepared:
		s.did("cold start of a prepared run")
	}
	if !sh.Planned && sh.Prepared {
		s.fault("I10: %s/%d starts on %s without a plan", sh.Job, sh.Generation, sh.Machine().Node)
	}
}

// checkParked: when a generation is planned, or a job has no generation any more, no process of its script waits
// anywhere, but for those that the world begins with.
func (s *storm) checkParked(v *record.JobView, world cluster.World, broken string) {
	for _, n := range s.nodes {
		for _, sh := range n.Shims() {
			if sh.Job == v.ID && sh.Parked() && !s.mayWait(sh, world) {
				s.fault(broken, v.ID, sh.Generation, n.Node)
			}
		}
	}
}

// mayWait reports whether what waits for a plan, or for the devices that it gives, is a part of a world; or does not count:
// it runs no code any more, or etcd was restored and nothing is known of it there.
func (s *storm) mayWait(sh *machine.Shim, world cluster.World) bool {
	_, _, member := world.Member(sh.Machine().Node)
	return member && sh.Generation == world.Generation && sh.World.Nonce == world.Nonce || sh.KillPending() || s.lost[sh.World.Nonce]
}
