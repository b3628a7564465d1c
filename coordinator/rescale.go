package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/speed"
	"github.com/bellows-ml/bellows/record/reason"
)

// rescale halts a running job whose last decision grants it other devices than
// it has. One that only grows runs on until the devices that it gains are free
// (ADR 13).
func rescale(in situation) *move {
	o, again, resized := rescaling(in)
	if !resized {
		in.wake(again)
		in.end(wait{in.ID, prepareWait})
		return nil
	}
	if until, awaits := awaitsPrepared(in); awaits && in.clock.Before(until) {
		in.wake(until) // it trains on meanwhile
		return nil
	}
	return halt(in, o)
}

// rescaling returns how the job is to be halted for what the last decision grants it; false if it is not, and when to
// look again.
func rescaling(in situation) (o order, again time.Time, resized bool) {
	t, ok := in.target, in.decided
	if in.state().Phase != cluster.Running || !ok || in.state().Pinned && in.job.fault == "" {
		return o, again, false
	}
	if end, finished := overdueAt(in); in.job.fault == "" && finished && in.clock.Before(end) {
		return o, end, false // it only has to end
	}
	have, kept, blocked := in.has, 0, false
	for _, p := range t.Placements {
		m, _, _ := in.world().Member(p.Node)
		for _, d := range p.Devices {
			switch {
			case slices.Contains(m.Devices, d):
				kept++
			case !free(in, deviceRef{p.Node, d}, in.ID):
				blocked = true
			}
		}
	}
	grows := kept == have.Workers()
	if grows {
		if blocked || t.Workers() == kept && (t.BatchSize == have.BatchSize || t.Workers() == 0) {
			return o, again, false
		}
		if at := underWayAt(in); in.clock.Before(at) {
			return o, at, false
		}
	}
	to, because := t.Workers(), resizeReason(in.job, t)
	if in.job.fault != "" {
		because = reason.Of(reason.New(reason.Broken, "said", in.job.fault))
	}
	why := resizeWhy(have.Workers(), to, because)
	if grows && to == kept {
		why = rebatchWhy(have.BatchSize, t.BatchSize, because)
	}
	return order{
		verb: "halt", why: reason.Of(why), to: &to,
		save: true, within: time.Duration(in.Spec.Value.HaltTimeout),
	}, again, true
}

// underWithin is how long a job that is to grow is left alone to come to its first
// step: to halt it before would cost its start and gain it nothing. Plain scripts
// do not say that they have begun.
const underWithin = 20 * time.Second

// underWayAt is from when on a running generation counts as under way: since ever if it has begun
// its first step, else when it has had the time for it.
func underWayAt(in situation) time.Time {
	if speed.Reported(in.mirror, in.ID, in.world()) >= 0 || in.Committed.Exists() && in.Committed.Value.Generation == in.number() {
		return time.Time{}
	}
	return in.since(wait{in.ID, startWait}, in.gen.Plan.Value.At).Add(underWithin)
}
