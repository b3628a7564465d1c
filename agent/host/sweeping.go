package host

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/host/loop"
)

// sweepFailed logs why, and rests before the next try. The end of the agent, which
// cuts sweeps short, is no failure.
func sweepFailed(ctx context.Context, log zerolog.Logger, err error, msg string) {
	if ctx.Err() == nil {
		log.Error().Err(err).Msg(msg)
	}
	loop.Rest(ctx, loop.RetryLast)
}

// sweepDir waits for a sweep, but not longer than ctx: a sweep of what SIGKILL does
// not end takes longer than a lease lives, and an agent that is asked to end has to
// leave the lease to a successor, which begins the sweep again.
func sweepDir(ctx context.Context, sweep func() error) error {
	swept := make(chan error, 1)
	go func() { swept <- sweep() }()
	select {
	case err := <-swept:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
