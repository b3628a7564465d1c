package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/speed"
	"github.com/bellows-ml/bellows/record"
)

const (
	// speedEvery is how long it takes at least from one speed record of a generation to the next.
	speedEvery = time.Minute
	// speedAtLeast is how long it takes at most until small changes are recorded: so
	// long, or the part speedAtLeastPart of the generation's age, but not more than speedAtLeastEver.
	speedAtLeast     = 5 * time.Minute
	speedAtLeastPart = 8
	speedAtLeastEver = time.Hour
	// silentFor is how long a job may run without a report before that is said.
	silentFor = 5 * time.Minute
	// kindsAtOnce keeps the transaction well below etcd's operations.
	kindsAtOnce = 4
)

// known is what is known of the job's speed.
func known(in situation) speed.Known {
	trained, service := in.trained(in.now)
	return in.measures.Of(in.mirror, in.now, speed.Job{
		JobView: in.JobView, Gen: in.gen, Sizes: in.sizes, PerNode: in.perNode(), Trained: trained, Service: service,
	})
}

// overdueAt is when a job that has told that nothing is left to do has had the time to end; false if it has not told that.
func overdueAt(in situation) (time.Time, bool) {
	patience, finished := known(in).Finished()
	if !finished {
		return time.Time{}, false
	}
	return in.since(wait{in.ID, doneWait}, in.gen.Plan.Value.At).Add(patience), true
}

// foresee forecasts the job: by what is recorded of its speed, and how far it is now.
func foresee(in situation) forecast.Forecast {
	end, finished := overdueAt(in)
	if finished {
		in.wake(end) // it is decided about otherwise from then on
	}
	return known(in).Foresee(finished && !in.clock.Before(end))
}

// recordSpeed writes down what was measured of a job: when the first generation of a
// world runs, once a minute at most while it does, and when it is over.
func recordSpeed(in situation) *move {
	k := known(in)
	switch {
	case in.measures.Off():
		return nil
	case k.Unheard():
		// Nobody would learn otherwise why the job has no speed and no predicted end.
		at, silent := silentAt(in, k)
		if silent && !in.clock.Before(at) {
			return writeSpeed(in, k.Silent())
		}
		in.wake(at)
		return nil
	case !k.Reporting():
		return nil
	}
	was := in.Speed.Value
	if was.Generation == in.number() && !in.state().Phase.Terminal() {
		if due := in.since(wait{in.ID, speedWait}, was.At).Add(speedEvery); in.clock.Before(due) {
			in.wake(due)
			return nil
		}
	}
	if k.Recorded() {
		return nil
	}
	next := k.Record()
	switch at, worth := worthRecordingAt(in, next); {
	case !worth:
		k.RecordedAll()
		return nil
	case in.clock.Before(at):
		in.wake(at)
		return nil
	}
	out := writeSpeed(in, next)
	if r, ok := in.LastResize(); ok && was.MeasuredGain(r) == 0 {
		if gain := next.MeasuredGain(r); gain > 0 {
			out.event = record.Event{
				Kind: record.JobGained, Job: in.ID, Generation: r.Generation, From: r.From, To: r.To, Predicted: r.Predicted, Measured: gain,
			}
		}
	}
	return out
}

// worthRecordingAt is from when on next is worth recording, the zero time for now; false if not before the job reports again.
func worthRecordingAt(in situation, next record.Speed) (time.Time, bool) {
	was, over := in.Speed.Value, !in.state().Phase.Active()
	switch {
	case len(next.Points)+len(next.Starts)+len(next.Curve) == 0 && next.Prediction == nil && next.Problem == was.Problem && next.LossFlat == was.LossFlat:
		return time.Time{}, false
	case over:
		return time.Time{}, speed.Unlike(was, next)
	case was.Generation != next.Generation:
		if next.Curve != nil || next.Problem != "" {
			return time.Time{}, true
		}
		return in.since(wait{in.ID, speedWait}, in.state().Since).Add(speedEvery), true // its speed is about to be known
	case speed.Unlike(was, next):
		return time.Time{}, true
	}
	// Small changes are worth a record now and then, and no Step of their own.
	age := was.At.Sub(in.gen.Plan.Value.At)
	late := in.since(wait{in.ID, speedWait}, was.At).Add(min(max(speedAtLeast, age/speedAtLeastPart), speedAtLeastEver))
	return late, !in.clock.Before(late)
}

// silentAt is from when on a job that runs without a report is recorded as silent; false if that is recorded, or it does not run.
func silentAt(in situation, k speed.Known) (time.Time, bool) {
	if in.state().Phase != cluster.Running || k.SilenceRecorded() {
		return time.Time{}, false
	}
	return in.since(wait{in.ID, speedWait}, in.state().Since).Add(silentFor), true
}

func writeSpeed(in situation, s record.Speed) *move {
	s.At = in.now
	return &move{verb: "speed", job: in.JobView, then: []record.Op{record.Put(record.SpeedKey(in.ID), s)}}
}

// recordKind adds what a job that has ended has shown to what is known of its kind.
func recordKind(in situation) *move {
	s, kind, ok := known(in).RecordKind()
	if !ok {
		return nil
	}
	uid := in.Spec.Value.Owner.UID
	then := []record.Op{record.Put(record.SpeedKey(in.ID), s), record.Put(record.JobKindKey(uid, s.Kind), kind)}
	for i, old := range in.mirror.OldestKinds(uid, s.Kind) {
		if i < kindsAtOnce {
			then = append(then, record.Delete(record.JobKindKey(uid, old)))
		}
	}
	return &move{
		verb: "kind", job: in.JobView, then: then,
		ifs: []record.Compare{record.Unchanged(record.JobKindKey(uid, s.Kind), in.mirror.Kinds[uid][s.Kind].Mod)},
	}
}
