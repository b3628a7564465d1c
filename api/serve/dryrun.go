package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// handleDryRun answers what would become of a job, and changes nothing.
func (s *submissions) handleDryRun(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var req api.SubmitRequest
	if err = decode(r, &req); err != nil {
		writeError(w, err)
		return
	}
	reply, err := s.dryRun(r.Context(), req, who)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, reply)
}

// dryRun says what would become of a job that was submitted now. What refuses the
// submission refuses this, with the same words.
func (s *submissions) dryRun(ctx context.Context, req api.SubmitRequest, who cluster.Owner) (api.DryRunReply, error) {
	x, err := s.examine(ctx, req, who)
	if err != nil {
		return api.DryRunReply{}, err
	}
	if x.known {
		return api.DryRunReply{}, api.Fault(api.InUse, "request id: a job was submitted with it; make a new one")
	}
	leave, err := s.ahead.enter(ctx)
	if err != nil {
		return api.DryRunReply{}, api.Fault(api.Unavailable, "other look-aheads of this agent took too long: ask again")
	}
	defer leave()
	submitted := record.Submitted{Spec: x.spec, ID: x.id, Owner: who}
	var q lookahead.Question
	var answer *record.Answer
	var p allocator.Policy
	var why, leader string
	if _, err = s.view.read(func(m *record.Mirror) {
		var cfg coordinator.Config
		if p, cfg, why = leads(m); p != nil {
			leader = leaderOf(m) // whose policy it is: there may have been none, or another, when the job was examined
			q, answer = coordinator.DryRun(cfg, m, time.Now(), submitted)
		}
	}); err != nil {
		return api.DryRunReply{}, err
	}
	if p == nil {
		return api.DryRunReply{}, api.Fault(api.Unavailable, "dry run: %s", why)
	}
	reply := api.DryRunReply{
		Name: x.spec.Name, Leader: leader, Policy: p.Name(), Deadline: x.spec.Deadline, Answer: answerShown(answer), Warnings: x.reply.Warnings,
		Refused: answer != nil && !answer.Promised && !x.spec.OrBestEffort,
	}
	starts, err := lookahead.Look(q, lookahead.Config{Policy: p, Follow: x.id, Stop: within(ctx)})
	if err != nil {
		return api.DryRunReply{}, api.Fault(api.Internal, "dry run: %s", record.Cut(err.Error(), maxFaults))
	}
	for i, start := range starts {
		if start.Job == x.id {
			foreseen(&reply, q, starts[i])
		}
	}
	return reply, nil
}

// foreseen adds what a look-ahead has shown of the job.
func foreseen(r *api.DryRunReply, q lookahead.Question, s lookahead.Start) {
	start := predicted(s)
	r.Start = &start
	for _, c := range s.Shrunk {
		r.Shrinks = append(r.Shrinks, api.Shrink{Job: string(c.Job), From: c.From, To: c.To})
	}
	for _, j := range q.Input.Jobs {
		if j.ID == s.Job {
			r.WorkUnknown = !j.Work.Known
		}
	}
	for _, x := range []struct {
		from time.Time
		to   **time.Time
	}{{s.End, &r.End}, {s.EndLow, &r.EndLow}, {s.EndHigh, &r.EndHigh}} {
		if !x.from.IsZero() && x.from.Year() < lastYear {
			*x.to = &x.from
		}
	}
	if d := r.Deadline; d != nil {
		switch {
		case r.Answer != nil && r.Answer.By != nil:
			r.DeadlineHolds = api.HoldsLate
		case r.Answer != nil && r.Answer.Promised:
			r.DeadlineHolds = api.HoldsPromised
		case s.Never, !s.EndLow.IsZero() && s.EndLow.After(*d), s.EndLow.IsZero() && s.Until.After(*d):
			r.DeadlineHolds = api.HoldsUnlikely
		case !r.WorkUnknown && !s.EndHigh.IsZero() && !s.EndHigh.After(*d):
			r.DeadlineHolds = api.HoldsLikely
		default:
			r.DeadlineHolds = api.HoldsUncertain
		}
	}
}
