package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/coordinator/speed"
)

// shouldPin reports whether a halt lost work that the job could have saved: it
// ended with no checkpoint newer than the one it began from although steps were
// begun. Halts for lost nodes and failures say nothing about how the job saves,
// nor do those that came while its workers were only starting.
func shouldPin(in situation) bool {
	halt := in.gen.Halt.Value
	if !in.gen.Halt.Exists() || !halt.Save || anyLost(in.job) || in.state().Pinned || haltedWhileImporting(in) {
		return in.state().Pinned
	}
	from := int64(-1)
	if r := in.gen.Plan.Value.Resume; r != nil {
		from = r.Step
	}
	if in.Committed.Exists() && in.Committed.Value.Step > from {
		return false
	}
	begun, known := stepsBegun(in)
	if !known { // a plain script that ran has begun something; one whose ranks would have said so has not
		return in.Rescales[in.number()].Exists() && !usesModule(in)
	}
	return begun > from
}

// importing is how long a script may take to come to its first step, or to where
// it catches SIGTERM: interpreters and libraries from a slow network file system.
// One that has not by then never will, and loses its work with each halt.
const importing = 2 * time.Minute

// haltedWhileImporting reports whether a halt came so early that a worker had not begun to
// listen for it: then no checkpoint of all ranks could be saved.
func haltedWhileImporting(in situation) bool {
	for _, m := range in.world().Members {
		acks := acks(in, m.Node)
		// Both by the node's own clock.
		if h := acks.Held.Value; h.Deaf && h.At.Sub(acks.Started.Value.ExecedAt) < importing {
			return true
		}
	}
	return false
}

// usesModule reports whether ranks of one of the job's kept generations answered a
// halt: the script uses the module, and a generation that was halted before any
// of its ranks spoke, while they imported, has begun no step.
func usesModule(in situation) bool {
	for _, g := range slices.Sorted(maps.Keys(in.Generations)) {
		world := in.Generation(g).Plan.Value.World
		for _, m := range world.Members {
			if in.node(m.Node).Ack(in.ID, g, world.Nonce).Held.Value.SDK {
				return true
			}
		}
	}
	return false
}

// stepsBegun returns the highest step that any rank of the newest generation is
// known to have begun; false if no rank or agent has reported one.
func stepsBegun(in situation) (step int64, known bool) {
	step = speed.Reported(in.mirror, in.ID, in.world())
	known = step >= 0
	for _, a := range in.roll {
		if a.Held && a.SDK {
			step, known = max(step, a.Begun), true
		}
	}
	return step, known
}
