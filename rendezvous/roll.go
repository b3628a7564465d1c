package rendezvous

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Attendance is what is known of one member's part in a generation.
type Attendance struct {
	Node    cluster.NodeID
	Started bool // its workers were executed
	Failed  bool
	Stopped bool // nothing of the generation is left on the node
	// Finished: it stopped because all its workers exited 0 without a halt.
	Finished bool
	// Lost: the node's life that the world was planned with is over.
	Lost bool
	// Fenced: the leader gave the node up after the wait, and it has not come back.
	Fenced bool
	// Held: it answered a halt; SDK and Begun as it said.
	Held  bool
	SDK   bool
	Begun int64
}

// Gone reports whether no worker of the generation can be left on the node.
func (a Attendance) Gone() bool { return a.Stopped || a.Fenced }

// Roll is the attendance of a generation's members, in rank order.
type Roll []Attendance

// AllStarted reports whether every member's workers were executed. A member that has finished has started.
func (r Roll) AllStarted() bool { return len(r.unstarted()) == 0 }

// AllGone reports whether the generation has no workers left anywhere.
func (r Roll) AllGone() bool { return len(r) > 0 && r.all(Attendance.Gone) }

// AllFinished reports whether every worker of the world exited 0 without a halt.
func (r Roll) AllFinished() bool {
	return len(r) > 0 && r.all(func(a Attendance) bool { return a.Stopped && a.Finished })
}

// Overdue returns the members that have not started although the deadline has
// passed: none before it.
func (r Roll) Overdue(planned, now time.Time, within time.Duration) []cluster.NodeID {
	if now.Before(planned.Add(within)) {
		return nil
	}
	return r.unstarted()
}

// Present returns the members that may still have workers.
func (r Roll) Present() []cluster.NodeID {
	return r.nodes(func(a Attendance) bool { return !a.Gone() })
}

// Lost returns the members whose node is lost and which have not stopped.
func (r Roll) Lost() []cluster.NodeID {
	return r.nodes(func(a Attendance) bool { return a.Lost && !a.Stopped })
}

// Answers returns what the members have said to a halt: the highest step that
// any rank has begun, -1 if none was, and whether any rank speaks the SDK's
// protocol. It is not known before every member that can answer has answered,
// and never if none can.
func (r Roll) Answers() (begun int64, sdk, known bool) {
	begun = -1
	for _, a := range r {
		switch {
		case a.Held:
			known = true
			sdk = sdk || a.SDK
			begun = max(begun, a.Begun)
		case !a.Gone() && !a.Lost:
			return -1, false, false
		}
	}
	return begun, sdk, known
}

func (r Roll) unstarted() []cluster.NodeID {
	return r.nodes(func(a Attendance) bool { return !a.Started && (!a.Stopped || !a.Finished) })
}

func (r Roll) all(is func(Attendance) bool) bool {
	return !slices.ContainsFunc(r, func(a Attendance) bool { return !is(a) })
}

func (r Roll) nodes(is func(Attendance) bool) []cluster.NodeID {
	var out []cluster.NodeID
	for _, a := range r {
		if is(a) {
			out = append(out, a.Node)
		}
	}
	return out
}
