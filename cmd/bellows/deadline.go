package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// deadlineLong is what the help of commands that submit says of deadlines.
const deadlineLong = `With --deadline the coordinator answers before anything runs: the deadline is
promised, and no later job breaks that, or the job is refused with what could be
promised instead. It plans with the speed that jobs of the same kind have shown and
--steps, or with --eta. --or-best-effort runs the job without a promise then, and
--accept-counter takes what could be promised: more workers or fewer at least where
that keeps the deadline, else the earliest deadline.`

// acceptFlag declares --accept-counter.
func acceptFlag(f *flags.Set) *bool {
	return f.Bool("accept-counter", false, "where the deadline cannot be promised, take what could be promised instead")
}

// submitted sends a job and, if it has a deadline, waits for the answer to it. A job that
// is refused ends the command with an exit status of its own.
func submitted(ctx context.Context, client *api.Client, spec cluster.Spec, acceptCounter bool) (api.SubmitReply, error) {
	for {
		reply, err := ask.Submit(ctx, client, spec)
		if err != nil {
			return reply, err
		}
		if spec.Deadline == nil {
			announce(reply)
			return reply, nil
		}
		warnOf(reply)
		status, err := ask.Answer(ctx, client, reply.ID, func(why string) {
			fmt.Fprintf(os.Stderr, "%s: %s; it waits for the answer to its deadline, and 'bellows stop %s' takes it back\n", reply.ID, why, reply.ID)
		})
		if err != nil {
			return reply, err
		}
		now := render.View{Now: time.Now(), Zone: time.Local}
		fmt.Fprintf(os.Stderr, "%s: %s\n", reply.ID, render.Answered(status, now))
		switch {
		case status.Phase == cluster.Failed && status.Answer == nil: // refused for another reason: two asked for one name while none led
			return reply, fault.Exit(1)
		case status.Phase != cluster.Refused:
			return reply, nil
		}
		other, what, ok := countered(spec, status)
		if !acceptCounter || !ok {
			return reply, fault.Exit(api.RefusedStatus)
		}
		fmt.Fprintf(os.Stderr, "%s: submitted again with %s\n", spec.Name, what)
		spec, acceptCounter = other, false
	}
}

// countered is a refused job as it could be promised, in words too; false if it could not.
func countered(spec cluster.Spec, status api.JobStatus) (cluster.Spec, string, bool) {
	if status.Answer == nil || status.Answer.Offer == nil {
		return spec, "", false
	}
	switch o := status.Answer.Offer; {
	case o.MaxWorkers > 0:
		spec.MaxWorkers = o.MaxWorkers
		return spec, fmt.Sprintf("--max %d", o.MaxWorkers), true
	case o.MinWorkers > 0:
		spec.MinWorkers = o.MinWorkers
		return spec, fmt.Sprintf("--min %d", o.MinWorkers), true
	case o.Deadline != nil:
		spec.Deadline = o.Deadline
		return spec, "--deadline " + o.Deadline.UTC().Format(time.RFC3339), true
	}
	return spec, "", false
}
