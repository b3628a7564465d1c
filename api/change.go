package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func (s *Server) handleStop(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		return s.stop(r.Context(), r.PathValue("job"), who)
	})
}

func (s *Server) handleResume(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		var req ResumeRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		return s.resume(r.Context(), resumption{r.PathValue("job"), req.From}, who)
	})
}

func (s *Server) handleScale(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		var req ScaleRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		return s.scale(r.Context(), record.Request{
			Kind: record.ScaleRequest, Job: cluster.JobID(r.PathValue("job")), MinWorkers: req.MinWorkers, MaxWorkers: req.MaxWorkers, TimeLimit: req.TimeLimit, Owner: who,
		})
	})
}

// scale passes a request on whose Job may still be a name, unless the leader would refuse it.
func (s *Server) scale(ctx context.Context, r record.Request) (ScaleReply, error) {
	job, err := s.owned(string(r.Job), r.Owner, "scale")
	if err != nil {
		return ScaleReply{}, err
	}
	if job.Ended {
		return ScaleReply{}, fault(Invalid, "job %s is %s: it has no workers any more", job.ID, job.Phase)
	}
	r.Job = cluster.JobID(job.ID)
	reply := ScaleReply{ID: job.ID, MinWorkers: cmp.Or(r.MinWorkers, job.MinWorkers), MaxWorkers: cmp.Or(r.MaxWorkers, job.MaxWorkers)}
	var wrong error
	_, err = s.view.read(func(m *record.Mirror) {
		v := m.Job(r.Job)
		if !v.Spec.Exists() {
			wrong = fault(Unavailable, "job %s is not admitted yet: try again in a moment", job.ID)
			return
		}
		spec := v.Scaled()
		spec.MinWorkers, spec.MaxWorkers = reply.MinWorkers, reply.MaxWorkers
		spec.TimeLimit = cmp.Or(r.TimeLimit, spec.TimeLimit)
		reply.TimeLimit = spec.TimeLimit
		if bad := spec.Validate(); bad != nil {
			wrong = fault(Invalid, "%s", bad)
		}
	})
	if err == nil {
		err = wrong
	}
	if err != nil {
		return ScaleReply{}, err
	}
	return reply, s.ask(ctx, r)
}

// answer writes what f makes of a request of the caller, or why not.
func answer(w http.ResponseWriter, r *http.Request, f func(who cluster.Owner) (any, error)) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	reply, err := f(who)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, reply)
}

func (s *Server) stop(ctx context.Context, ref string, who cluster.Owner) (StopReply, error) {
	job, err := s.owned(ref, who, "stop")
	if err != nil {
		return StopReply{}, err
	}
	reply := StopReply{ID: job.ID, Phase: job.Phase, Ended: job.Ended}
	if job.Ended {
		return reply, nil
	}
	return reply, s.ask(ctx, record.Request{Kind: record.StopRequest, Job: cluster.JobID(job.ID), Owner: who})
}

// resumption is a job to be resumed, and where.
type resumption struct {
	ref  string
	from *int64 // as in ResumeRequest
}

// resume refuses what the leader would refuse, while the caller still listens.
func (s *Server) resume(ctx context.Context, r resumption, who cluster.Owner) (ResumeReply, error) {
	job, err := s.owned(r.ref, who, "resume")
	if err != nil {
		return ResumeReply{}, err
	}
	id := cluster.JobID(job.ID)
	reply := ResumeReply{ID: job.ID, Step: record.FromStart}
	_, unread := s.view.read(func(m *record.Mirror) {
		v := m.Job(id)
		if r.from != nil {
			reply.Step = *r.from
		} else if v.Committed.Exists() {
			reply.Step = v.Committed.Value.Step
		}
		if other, used := nameUser(m, job.Name, id); used {
			err = fault(InUse, "name %q is in use by job %s: stop that job first", job.Name, other)
		} else {
			err = resumable(v, r.from)
		}
	})
	if err = errors.Join(unread, err); err != nil {
		return ResumeReply{}, err
	}
	return reply, s.ask(ctx, record.Request{Kind: record.ResumeRequest, Job: id, From: r.from, Owner: who})
}

// resumable says why a job cannot be resumed from there.
func resumable(v *record.JobView, from *int64) error {
	phase := v.State.Value.Phase
	switch {
	case phase == cluster.Succeeded:
		return fault(Invalid, "job %s has succeeded: there is nothing left to resume", v.ID)
	case phase == cluster.Failed && v.State.Value.Generation == 0:
		return fault(Invalid, "job %s was refused (%s): submit it again", v.ID, v.State.Value.Reason)
	case phase != cluster.Stopped && phase != cluster.Failed && phase != cluster.Held:
		return fault(Invalid, "job %s is %s: only a stopped, failed or held job can be resumed", v.ID, phase)
	case from == nil && !v.Committed.Exists() && len(v.Bad) > 0:
		return fault(Invalid, "job %s has no checkpoint that is sound (%s): say --from STEP to try one again, or --from-start to do without", v.ID, stepsOf(v))
	case from != nil && *from != record.FromStart && !v.Checkpoints[*from].Exists() && !v.Bad[*from].Exists():
		return fault(Invalid, "job %s has no checkpoint of step %d: it has %s", v.ID, *from, stepsOf(v))
	}
	return nil
}

// stepsOf lists the steps of which there are checkpoints.
func stepsOf(v *record.JobView) string {
	var parts []string
	for _, step := range slices.Sorted(maps.Keys(v.Checkpoints)) {
		parts = append(parts, fmt.Sprintf("step %d", step))
	}
	for _, step := range slices.Sorted(maps.Keys(v.Bad)) {
		parts = append(parts, fmt.Sprintf("step %d, given up: %s", step, v.Bad[step].Value.Reason))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}

// owned finds a job that the caller may change.
func (s *Server) owned(ref string, who cluster.Owner, verb string) (JobStatus, error) {
	job, _, err := s.job(ref, who)
	if err == nil && who.UID != 0 && who.UID != job.UID {
		err = fault(Forbidden, "job %s belongs to %s: only its owner or root may %s it", job.ID, job.Owner, verb)
	}
	return job, err
}

// ask writes a request for the leader.
func (s *Server) ask(ctx context.Context, r record.Request) error {
	r.At = time.Now().UTC()
	key := record.RequestKey(s.cfg.Node, NewRequestID())
	return s.commit(ctx, record.Txn{
		ID:   string(r.Kind) + " " + string(r.Job) + string(r.Node),
		If:   []record.Compare{record.Absent(key)},
		Then: []record.Op{record.Put(key, r)},
	})
}
