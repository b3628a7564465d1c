package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// stop notes that the owner wants the job stopped. Only one that says Now cuts a
// save short: an impatient user who asks again must not lose work by it.
func stop(in situation, r request) *move {
	owner := r.Value.Owner
	w := in.Wanted.Value
	asked := in.Wanted.Exists() && !w.Run && (w.Now || !r.Value.Now)
	if why := forbidden(in, r, "stop"); why != "" || in.State.Value.Phase.Terminal() || asked || repeated(in, r) {
		return drop(in, r, why)
	}
	w.Now = r.Value.Now
	w.Run, w.By, w.At, w.Request = false, owner.User, r.Value.At, r.id
	var how reason.Reason
	if w.Now {
		how = reason.Of(reason.New(reason.AtOnce))
	}
	m := &move{
		verb: "want-stop", job: in.JobView,
		ifs: []record.Compare{record.Unchanged(r.key, r.Mod)},
		then: []record.Op{
			record.Delete(r.key),
			record.Put(record.WantedKey(in.ID), w),
		},
		note:  Note{Job: in.ID, Gen: in.State.Value.Generation, Text: "stop asked for by " + owner.User},
		event: record.Event{Kind: record.JobStopping, Job: in.ID, Generation: in.State.Value.Generation, By: owner.User, Why: how},
	}
	if r.Value.Now && in.state().Phase == cluster.Halting && in.gen.Permit.Exists() {
		h, s := in.gen.Halt.Value, next(in, cluster.Halting, atOnceBy(owner.User).And(reason.New(reason.NotWaitedFor)))
		h.Save, h.Why, h.At = false, atOnceBy(owner.User), in.now
		m.then = append(m.then,
			record.Put(record.StateKey(in.ID), s),
			record.Put(record.HaltKey(in.ID, in.number()), h),
			record.Delete(record.PermitKey(in.ID, in.number())))
	}
	return m
}

// atOnceBy is the reason of a stop that waits for no save.
func atOnceBy(user string) reason.Reason {
	return reason.Of(reason.New(reason.StoppedAtOnce, "user", user))
}

func stoppedWhy(j *job) reason.Reason {
	if j.Wanted.Value.Now {
		return atOnceBy(j.Wanted.Value.By)
	}
	return reason.Of(reason.New(reason.StoppedBy, "user", j.Wanted.Value.By))
}

// haltStop halts a job whose owner wants it stopped.
func haltStop(in situation) *move {
	if !in.unwanted() {
		return nil
	}
	return halt(in, order{verb: "halt", why: stoppedWhy(in.job), save: true, within: time.Duration(in.Spec.Value.HaltTimeout)})
}

// stopIdle ends a job that has no workers and whose owner wants it stopped.
func stopIdle(in situation) *move {
	if !in.unwanted() {
		return nil
	}
	return end(in, cluster.Stopped, stoppedWhy(in.job))
}
