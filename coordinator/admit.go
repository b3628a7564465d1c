package coordinator

import (
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/promise"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// admitJob sends ADMIT. A job that cannot be is admitted as failed, so that its
// submitter learns why; only a request that names no possible job is dropped.
func admitJob(in situation, r request) *move {
	switch {
	case in.Spec.Exists():
		return drop(in, r, "") // submitted again: accepted before
	case r.Value.Spec == nil || !possibleID(r.Value.Job, r.Value.Spec.Name):
		return drop(in, r, "job id and spec do not belong together")
	}
	spec := record.Submitted{Spec: r.Value.Spec.WithDefaults(), ID: r.Value.Job, Owner: r.Value.Owner, At: r.Value.At}
	spec.NoNewPrivs = spec.NoNewPrivs || in.cfg.NoNewPrivs
	s := record.State{Phase: cluster.Queued, Since: in.now, Reason: reason.Of(reason.New(reason.Accepted))}
	if err := spec.Validate(); err != nil {
		s.Phase, s.Reason = cluster.Failed, reason.Of(reason.New(reason.SpecInvalid, "said", strings.ReplaceAll(err.Error(), "\n", "; ")))
	} else if in.small(spec.ID) {
		s.Phase, s.Reason = cluster.Failed, reason.Of(reason.New(reason.SpecTooLarge))
	} else if why := overLimit(in, r, spec.Spec); why != "" {
		s.Phase, s.Reason = cluster.Failed, reason.Of(reason.New(reason.OverLimit, "said", why))
	} else if other, used := nameUsed(in, spec.Name); used {
		s.Phase, s.Reason = cluster.Failed, reason.Of(reason.New(reason.NameInUse, "name", spec.Name, "job", other))
	}
	var promised *record.Promises
	if s.Phase == cluster.Queued && spec.Deadline != nil && !in.cfg.Unanswered {
		if in.writing(record.PromisedKey) {
			return nil // one at a time: the next knows what was promised before it
		}
		v := decideDeadline(in, spec, r.Mod)
		if v.Plan != nil && promise.TooLarge(*v.Plan) {
			v = v.TooMany()
		}
		spec.Answer, promised = &v.Answer, v.Plan
		if !v.Promised && !spec.OrBestEffort {
			s.Phase, s.Reason = cluster.Refused, reason.Of(promise.Refused(&v.Answer))
		}
	}
	s.Reason = bounded(in, s.Reason)
	if s.Phase.Terminal() {
		spec.Spec = abridged(spec.Spec)
	}
	m := &move{
		verb: "admit", job: &record.JobView{ID: spec.ID},
		ifs: []record.Compare{record.Absent(record.SpecKey(spec.ID)), record.Unchanged(r.key, r.Mod)},
		then: []record.Op{
			record.Put(record.SpecKey(spec.ID), spec),
			record.Put(record.WantedKey(spec.ID), record.Wanted{Run: true, By: spec.Owner.User, At: spec.At}),
			record.Put(record.StateKey(spec.ID), s),
			record.Delete(r.key),
		},
		note: phaseNote(in.JobView, s),
	}
	if promised != nil {
		m.ifs = append(m.ifs, record.Unchanged(record.PromisedKey, in.mirror.Promised.Mod))
		m.then = append(m.then, record.Put(record.PromisedKey, *promised))
	}
	if s.Phase == cluster.Queued {
		m.name = spec.Name
		m.event = record.Event{Kind: record.JobSubmitted, Job: spec.ID, By: spec.Owner.User, Why: promise.Words(spec.Answer)}
	}
	return m
}

// abridged is what is kept of a spec that was refused: enough to tell whose and which
// it was, whatever its size.
func abridged(s cluster.Spec) cluster.Spec {
	const most = 256 // bytes of each text
	kept := cluster.Spec{
		Name: s.Name, Workdir: record.Cut(s.Workdir, most), CheckpointDir: record.Cut(s.CheckpointDir, most),
		MinWorkers: s.MinWorkers, MaxWorkers: s.MaxWorkers, BatchSize: s.BatchSize, Priority: s.Priority,
		MaxRestarts: s.MaxRestarts, HaltTimeout: s.HaltTimeout, Deadline: s.Deadline, Grace: s.Grace, Steps: s.Steps, ETA: s.ETA,
	}
	if len(s.Command) > 0 {
		kept.Command = []string{record.Cut(s.Command[0], most)}
	}
	return kept
}

// nameUsed returns the live job that has the name, or is about to.
func nameUsed(in situation, name string) (cluster.JobID, bool) {
	if id, used := in.named(name); used {
		return id, true
	}
	return in.takesName(name)
}

// suffixLength is how many characters of the request's identifier a job's ends in.
const suffixLength = 6

// possibleID reports whether the identifier is the name and a suffix of lower-case
// base32, and safe to make keys and paths of, whatever the name holds.
func possibleID(id cluster.JobID, name string) bool {
	suffix, ok := strings.CutPrefix(string(id), name+"-")
	if !ok || len(suffix) != suffixLength || strings.Trim(suffix, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return false
	}
	return cluster.CheckName(name) == nil
}
