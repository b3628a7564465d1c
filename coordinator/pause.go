package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// haltPaused halts a generation because the cluster is paused. Its job
// goes back to the queue with what it saved.
func haltPaused(in situation) *move {
	if !in.paused().Exists() {
		return nil
	}
	return halt(in, order{verb: "halt", why: pausedWhy(in), save: true, within: pausedWithin(in)})
}

// shortenForPause brings a halt that began before the pause to the pause's deadline.
func shortenForPause(in situation) *move {
	if !in.paused().Exists() || !in.gen.Halt.Exists() || !in.gen.Halt.Value.Save {
		return nil
	}
	paused := in.since(wait{what: pauseWait}, in.paused().Value.At)
	left := max(0, pausedWithin(in)-in.clock.Sub(paused))
	if saveTime(in) <= left {
		return nil
	}
	return &move{
		verb: "shorten", job: in.JobView,
		then: []record.Op{record.Put(record.HaltKey(in.ID, in.number()), shortened(in, left))},
	}
}

// pausedWithin is how long the job's script has to save: no longer than the administrator who pauses the cluster waits.
func pausedWithin(in situation) time.Duration {
	own := time.Duration(in.Spec.Value.HaltTimeout)
	if s := in.paused().Value.SaveSeconds; s > 0 {
		return min(own, time.Duration(s*float64(time.Second)))
	}
	return own
}

func pausedWhy(in situation) reason.Reason {
	return reason.Of(reason.New(reason.Paused, "said", in.paused().Value.Why))
}
