package coordinator

import (
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// This page lists the rules by which jobs live: for each phase a table, in the
// order in which its rules are tried. The first that applies answers with the
// transaction to send; the job has no other until its outcome is known. A rule
// that sends nothing can still say what it has found out to those after it.
//
// To add a rule, write a function of a situation in the file of its concern, and
// put it where it belongs here.

// jobRules returns the rules of a phase.
func jobRules(p cluster.Phase) []rule {
	switch p {
	case cluster.Queued:
		return queuedRules
	case cluster.Held:
		return heldRules
	case cluster.Backoff:
		return backoffRules
	case cluster.Starting, cluster.Running:
		return activeRules
	case cluster.Halting:
		return haltingRules
	case cluster.Succeeded, cluster.Failed, cluster.Stopped, cluster.Refused:
		return endedRules
	}
	return nil // of a job in a phase of another version nothing is known, so nothing is done, or let go of
}

// A queued job waits for a decision, and for the devices that one grants it.
var queuedRules = []rule{
	{"grants that did not fit", regrant},
	{"commit an offer", commit},
	{"stop", stopIdle},
	{"time limit", stopSpentIdle},
	{"hold: its numbers cannot be used", holdUnusable},
	{"readmit nodes that are well again", readmit},
	{"readmit the suspect where no other node can verify", readmitSuspect},
	{"await nodes that will be well again", awaitTransient},
	{"hold", hold},
	{"start", startQueued},
	{"explain", explain},
	{"nothing is prepared", unprepare},
	{"collect", collect},
	{"record its speed", recordSpeed},
}

// A held job waits for its owner, or for a node that has not refused it.
var heldRules = []rule{
	{"grants that did not fit", regrant},
	{"commit an offer", commit},
	{"stop", stopIdle},
	{"time limit", stopSpentIdle},
	{"readmit nodes that are well again", readmit},
	{"readmit the suspect where no other node can verify", readmitSuspect},
	{"queue", unhold},
	{"nothing is prepared", unprepare},
	{"collect", collect},
	{"record its speed", recordSpeed},
}

// A job in backoff waits for a time.
var backoffRules = []rule{
	{"grants that did not fit", regrant},
	{"commit an offer", commit},
	{"stop", stopIdle},
	{"time limit", stopSpentIdle},
	{"retry", retry},
	{"collect", collect},
	{"record its speed", recordSpeed},
}

// A starting or running job has a generation, whose workers are about to run, or do.
// Halts come before commits: a job that saves as fast as its offers are committed
// would otherwise never be halted, and keep its devices from others.
var activeRules = []rule{
	{"grants that did not fit", regrant},
	{"what follows the end", when(allFinished, afterEndRules)},
	{"halt: a member failed", haltFailed},
	{"halt: a node is lost", haltLost},
	{"halt: its owner stops it", haltStop},
	{"halt: time limit", haltSpent},
	{"halt: the cluster is paused", haltPaused},
	{"halt: a member stopped", haltIdle},
	{"started", started},
	{"halt: not read in time", haltReading},
	{"halt: not started in time", haltOverdue},
	{"prepare the next generation", prepare},
	{"halt: rescale", rescale},
	{"commit an offer", commit},
	{"readmit nodes that are well again", readmit},
	{"collect", collect},
	{"record its speed", recordSpeed},
}

// What follows when every rank has exited 0 without being told to stop: nothing is offered any more.
var afterEndRules = []rule{
	{"commit an offer", commit},
	{"succeed", succeed},
}

// A halting job saves, and ends its generation. No commit keeps it from that.
var haltingRules = []rule{
	{"grants that did not fit", regrant},
	{"what follows the halt", when(allGone, afterHaltRules)},
	{"shorten: a node is lost", shortenForLoss},
	{"shorten: the cluster is paused", shortenForPause},
	{"last step, or SIGTERM", stopAfter},
	{"end what is prepared elsewhere", unprepareElsewhere},
	{"fence a lost node", fenceLost},
	{"kill: the time to save is over", kill},
	{"commit an offer", commit},
	{"fall back from a damaged checkpoint", fallBack},
	{"report what survives SIGKILL", reportUnkillable},
	{"report a node that cannot be fenced", reportUnfenced},
	{"collect", collect},
}

// What follows when nothing of a halted generation is left: nothing is offered any more.
var afterHaltRules = []rule{
	{"commit an offer", commit},
	{"fall back from a damaged checkpoint", fallBack},
	{"succeed", succeed},
	{"stop", stopHalted},
	{"time limit", stopSpent},
	{"start cold: its warm start failed", startCold},
	{"give up a batch: out of memory", giveUpBatch},
	{"give up a size: out of memory", giveUpSize},
	{"charge a failure", fail},
	{"exclude nodes that refused it", exclude},
	{"readmit the suspect where no other node can verify", readmitSuspect},
	{"await nodes that will be well again", awaitTransient},
	{"hold: its numbers cannot be used", holdUnusable},
	{"hold", hold},
	{"await room on a full disk", awaitRoom},
	{"back off: generations do not form", backOffUnformed},
	{"back off: generations are fenced", backOffFenced},
	{"restart", restart},
	{"await a decision", awaitDecision},
	{"queue", requeue},
}

// A job that has ended is kept for a while.
var endedRules = []rule{
	{"grants that did not fit", regrant},
	{"nothing is prepared", unprepare},
	{"record its speed", recordSpeed},
	{"record what its kind has shown", recordKind}, // also of a job that is not kept
	{"expire", expire},
	{"collect", collect},
}

// clusterRules concern no job, or choose one; all are tried at each Step.
var clusterRules = []clusterRule{
	{"sweep what removed nodes left", sweep},
	{"grants of jobs that are gone", ungrantGone},
	{"what is prepared of jobs that are gone", unprepareGone},
	{"what was prepared on lost nodes", forgetParked},
	{"expire: too many can be resumed", expireFirst},
	{"trim: too many of a user are kept", trim},
}

// clusterRule is a rule about the cluster.
type clusterRule struct {
	name   string
	answer func(situation) []*move
}

// carryOut answers a request about a job or a node. It is deleted by the
// transaction that carries it out.
func carryOut(in situation, r request) *move {
	switch r.Value.Kind {
	case record.SubmitRequest:
		return admitJob(in, r)
	case record.StopRequest:
		return stop(in, r)
	case record.ResumeRequest:
		return resume(in, r)
	case record.ScaleRequest:
		return scale(in, r)
	case record.DrainRequest:
		return drain(in, r)
	case record.UndrainRequest:
		return undrain(in, r)
	case record.RemoveRequest:
		return removeNode(in, r)
	}
	return drop(in, r, fmt.Sprintf("unknown kind %q", r.Value.Kind))
}
