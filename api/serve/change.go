package serve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// changes takes requests to change jobs and nodes.
type changes struct {
	view     *view
	requests *requests
}

func (c *changes) handleStop(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		var req api.StopRequest
		if r.ContentLength != 0 { // it may be left out
			if err := decode(r, &req); err != nil {
				return nil, err
			}
		}
		return c.stop(r.Context(), r.PathValue("job"), req, who)
	})
}

func (c *changes) handleResume(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		var req api.ResumeRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		return c.resume(r.Context(), resumption{r.PathValue("job"), req}, who)
	})
}

func (c *changes) handleScale(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		var req api.ScaleRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		return c.scale(r.Context(), req.RequestID, record.Request{
			Kind: record.ScaleRequest, Job: cluster.JobID(r.PathValue("job")), MinWorkers: req.MinWorkers, MaxWorkers: req.MaxWorkers, TimeLimit: req.TimeLimit, Owner: who,
		})
	})
}

// scale passes a request on whose Job may still be a name, unless the leader would refuse it.
func (c *changes) scale(ctx context.Context, requestID string, r record.Request) (api.ScaleReply, error) {
	job, err := c.owned(string(r.Job), r.Owner, "scale")
	if err != nil {
		return api.ScaleReply{}, err
	}
	if job.Ended {
		return api.ScaleReply{}, api.Fault(api.Invalid, "job %s is %s: it has no workers any more", job.ID, job.Phase)
	}
	r.Job = cluster.JobID(job.ID)
	reply := api.ScaleReply{ID: job.ID, MinWorkers: cmp.Or(r.MinWorkers, job.MinWorkers), MaxWorkers: cmp.Or(r.MaxWorkers, job.MaxWorkers)}
	var wrong error
	_, err = c.view.read(func(m *record.Mirror) {
		v := m.Job(r.Job)
		if !v.Spec.Exists() {
			wrong = api.Fault(api.Unavailable, "job %s is not admitted yet: try again in a moment", job.ID)
			return
		}
		spec := v.Scaled()
		spec.MinWorkers, spec.MaxWorkers = reply.MinWorkers, reply.MaxWorkers
		spec.TimeLimit = cmp.Or(r.TimeLimit, spec.TimeLimit)
		reply.TimeLimit = spec.TimeLimit
		if bad := spec.Validate(); bad != nil {
			wrong = api.Fault(api.Invalid, "%s", bad)
		}
	})
	if err == nil {
		err = wrong
	}
	if err != nil {
		return api.ScaleReply{}, err
	}
	if repeated, err := c.repeated(r.Job, requestID); repeated || err != nil {
		return reply, err
	}
	return reply, c.requests.ask(ctx, requestID, r)
}

func (c *changes) stop(ctx context.Context, ref string, req api.StopRequest, who cluster.Owner) (api.StopReply, error) {
	job, err := c.owned(ref, who, "stop")
	if err != nil {
		return api.StopReply{}, err
	}
	id := cluster.JobID(job.ID)
	reply := api.StopReply{ID: job.ID, Phase: job.Phase, Ended: job.Ended, Stopping: job.Stopping, SaveUntil: job.SaveUntil}
	repeated, err := c.repeated(id, req.RequestID)
	if err != nil || job.Ended || repeated {
		return reply, err
	}
	if _, err = c.view.read(func(m *record.Mirror) {
		reply.SaveWithinS = time.Duration(m.Job(id).Spec.Value.HaltTimeout).Seconds()
	}); err != nil {
		return reply, err
	}
	return reply, c.requests.ask(ctx, req.RequestID, record.Request{Kind: record.StopRequest, Job: id, Now: req.Now, Owner: who})
}

// resumption is a job to be resumed, and where.
type resumption struct {
	ref string
	api.ResumeRequest
}

// resume refuses what the leader would refuse, while the caller still listens.
func (c *changes) resume(ctx context.Context, r resumption, who cluster.Owner) (api.ResumeReply, error) {
	job, err := c.owned(r.ref, who, "resume")
	if err != nil {
		return api.ResumeReply{}, err
	}
	if r.TimeLimit < 0 || r.TimeLimit > cluster.MaxTime {
		return api.ResumeReply{}, api.Fault(api.Invalid, "time limit %s: use a time above zero such as 12h, at most %s", r.TimeLimit, cluster.MaxTime)
	}
	id := cluster.JobID(job.ID)
	reply := api.ResumeReply{ID: job.ID, Step: record.FromStart}
	repeated, err := c.repeated(id, r.RequestID)
	_, unread := c.view.read(func(m *record.Mirror) {
		v := m.Job(id)
		if r.From != nil {
			reply.Step = *r.From
		} else if v.Committed.Exists() {
			reply.Step = v.Committed.Value.Step
		}
		if repeated || err != nil {
			return
		}
		if other, used := nameUser(m, job.Name, id); used {
			err = api.Fault(api.InUse, "name %q is in use by job %s: stop that job first", job.Name, other)
		} else {
			err = resumable(v, r.From)
		}
	})
	if err = cmp.Or(unread, err); err != nil {
		return api.ResumeReply{}, err
	}
	if repeated {
		return reply, nil
	}
	return reply, c.requests.ask(ctx, r.RequestID, record.Request{Kind: record.ResumeRequest, Job: id, From: r.From, TimeLimit: r.TimeLimit, Owner: who})
}

// resumable says why a job cannot be resumed from there.
func resumable(v *record.JobView, from *int64) error {
	phase := v.State.Value.Phase
	switch {
	case phase == cluster.Succeeded:
		return api.Fault(api.Invalid, "job %s has succeeded: there is nothing left to resume", v.ID)
	case phase == cluster.Refused || phase == cluster.Failed && v.State.Value.Generation == 0:
		return api.Fault(api.Invalid, "job %s was refused (%s): submit it again", v.ID, v.State.Value.Reason)
	case phase != cluster.Stopped && phase != cluster.Failed && phase != cluster.Held:
		return api.Fault(api.Invalid, "job %s is %s: only a stopped, failed or held job can be resumed", v.ID, phase)
	case from == nil && !v.Committed.Exists() && len(v.Bad) > 0:
		return api.Fault(api.Invalid, "job %s has no checkpoint that is sound (%s): say --from STEP to try one again, or --from-start to do without", v.ID, stepsOf(v))
	case from != nil && *from != record.FromStart && !v.Checkpoints[*from].Exists() && !v.Bad[*from].Exists():
		return api.Fault(api.Invalid, "job %s has no checkpoint of step %d: it has %s", v.ID, *from, stepsOf(v))
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
func (c *changes) owned(ref string, who cluster.Owner, verb string) (api.JobStatus, error) {
	job, _, err := c.view.job(ref, who)
	if err == nil && who.UID != 0 && who.UID != job.UID {
		err = api.Fault(api.Forbidden, "job %s belongs to %s: only its owner or root may %s it", job.ID, job.Owner, verb)
	}
	return job, err
}

// repeated reports whether the request of this identifier was carried out already.
func (c *changes) repeated(id cluster.JobID, requestID string) (bool, error) {
	if requestID == "" {
		return false, nil
	}
	if err := api.CheckRequestID(requestID); err != nil {
		return false, err
	}
	before := false
	_, err := c.view.read(func(m *record.Mirror) { before = m.Job(id).Wanted.Value.Request == requestID })
	return before, err
}
