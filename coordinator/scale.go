package coordinator

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// scale changes the bounds of a job's worlds and of its time. The next decision
// keeps to the former: a job whose present world lies outside is then halted with
// a save. The latter counts at once.
func scale(in situation, r request) *move {
	why := forbidden(in, r, "scale")
	if why == "" && in.State.Value.Phase.Terminal() {
		why = fmt.Sprintf("scale: the job is %s", in.State.Value.Phase)
	}
	if why == "" && repeated(in, r) {
		why = "scale: it was carried out before"
	}
	w := in.Wanted.Value
	w.Request = r.id
	if n := r.Value.MinWorkers; n != 0 {
		w.MinWorkers = n
	}
	if n := r.Value.MaxWorkers; n != 0 {
		w.MaxWorkers = n
	}
	if r.Value.MinWorkers != 0 || r.Value.MaxWorkers != 0 {
		w.ScaledBy = r.Value.Owner.User
	}
	if d := r.Value.TimeLimit; d != 0 {
		w.TimeLimit = d
	}
	scaled := record.JobView{Spec: in.Spec, Wanted: record.Versioned[record.Wanted]{Value: w}}
	spec := scaled.Scaled()
	if err := spec.Validate(); why == "" && err != nil {
		why = "scale: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if why != "" {
		return drop(in, r, why)
	}
	what := workersText(spec.MinWorkers, spec.MaxWorkers) + limitWords(spec.TimeLimit)
	m := &move{
		verb: "scale", job: in.JobView,
		ifs:   []record.Compare{record.Unchanged(r.key, r.Mod)},
		then:  []record.Op{record.Delete(r.key), record.Put(record.WantedKey(in.ID), w)},
		note:  Note{Job: in.ID, Gen: in.State.Value.Generation, Text: fmt.Sprintf("scaled to %s by %s", what, r.Value.Owner.User)},
		event: record.Event{Kind: record.JobScaled, Job: in.ID, Generation: in.State.Value.Generation, By: r.Value.Owner.User, Why: reason.Of(reason.New(reason.ScaledTo, "bounds", what))},
	}
	if in.State.Value.Phase != cluster.Running {
		m.grant, m.askAnew = &granting{}, true // what was granted is within other bounds
	}
	return m
}

func limitWords(limit cluster.Duration) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf(" and a time limit of %s", limit)
}
