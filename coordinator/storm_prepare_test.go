package coordinator_test

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/lab/machine"
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
	return time.Duration(n.s.warm.IntN(4000)) * time.Millisecond, n.s.seldom("prepared to start cold", 15)
}

// losePrepared ends what waits for a plan, now and then: the launcher, or the shim itself.
func (n *simNode) losePrepared() {
	for _, sh := range slices.Clone(n.Shims()) {
		switch {
		case !sh.Unbound():
		case n.s.seldom("launcher lost", 4) != "":
			sh.LoseLauncher()
		case n.s.seldom("prepared shim lost", 4) != "":
			sh.Crash()
		}
	}
}

// countPrepared counts how workers of a generation with warm starts were executed.
func (s *storm) countPrepared(sh *machine.Shim) {
	switch {
	case sh.Report.Warm:
		s.did("warm start")
	case sh.Prepared:
		s.did("cold start of a prepared run")
	}
	if !sh.Planned && sh.Prepared {
		s.fault("I10: %s/%d starts on %s without a plan", sh.Job, sh.Generation, sh.Machine().Node)
	}
}
