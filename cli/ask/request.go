package ask

import (
	"context"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// requestAttempts bounds how often a request whose fate is unknown is sent. It has
// the same identifier each time, so it is carried out once at most.
const requestAttempts = 3

// Submit sends a job to the agent, again if its fate is unknown.
func Submit(ctx context.Context, client *api.Client, spec cluster.Spec) (reply api.SubmitReply, err error) {
	req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec}
	err = Insist(func() error {
		reply, err = client.Submit(ctx, req)
		return err
	})
	return reply, err
}

// DryRun asks the agent what would become of a job.
func DryRun(ctx context.Context, client *api.Client, spec cluster.Spec) (reply api.DryRunReply, err error) {
	req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec}
	err = Insist(func() error {
		reply, err = client.DryRun(ctx, req)
		return err
	})
	return reply, err
}

// Insist sends a request, again if its fate is unknown.
func Insist(send func() error) error {
	for attempt := 1; ; attempt++ {
		if err := send(); api.CodeOf(err) != api.Unavailable || attempt == requestAttempts {
			return err
		}
	}
}

// Stop asks for a job to stop, again if the fate of the request is unknown.
func Stop(ctx context.Context, client *api.Client, job string, now bool) (reply api.StopReply, err error) {
	req := api.StopRequest{RequestID: api.NewRequestID(), Now: now}
	err = Insist(func() error {
		reply, err = client.Stop(ctx, job, req)
		return err
	})
	return reply, err
}
