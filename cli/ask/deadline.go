package ask

import (
	"context"
	"errors"

	"github.com/bellows-ml/bellows/api"
)

// errAnswered ends the watch of a job that waits for the answer to its deadline.
var errAnswered = errors.New("answered")

// Answer waits until a coordinator has admitted or refused a job, across restarts of
// the agent, and returns the job as it is then. waits is told once if none leads.
func Answer(ctx context.Context, client *api.Client, job string, waits func(why string)) (status api.JobStatus, err error) {
	told := false
	err = Again(ctx, func(heard func()) error {
		return client.Watch(ctx, job, func(s api.JobStatus) error {
			heard()
			if status = s; !s.Unadmitted {
				return errAnswered
			}
			if s.NoLeader && !told {
				told = true
				waits(s.WhyPending)
			}
			return nil
		})
	})
	if errors.Is(err, errAnswered) {
		err = nil
	}
	return status, err
}
