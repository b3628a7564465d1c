package host

import (
	"context"
	"errors"
	"testing"
)

// An agent that is asked to end does not wait for a sweep.
func TestASweepHoldsUpNoEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan struct{})
	defer close(end)
	cancel()
	if err := sweepDir(ctx, func() error { <-end; return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a sweep that does not end: %v", err)
	}
	if err := sweepDir(t.Context(), func() error { return errLooking }); !errors.Is(err, errLooking) {
		t.Errorf("a sweep that fails: %v", err)
	}
}
