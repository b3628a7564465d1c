package host

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/owner"
)

// The end of the agent is no failure of the sweeps that it cuts short.
func TestASweepCutShortIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		log := zerolog.New(&lines)
		ending, cancel := context.WithCancel(t.Context())
		cancel()
		sweepFailed(ending, log, ending.Err(), "cannot sweep")
		if lines.Len() > 0 {
			t.Errorf("the agent ends: %s", &lines)
		}
		sweepFailed(t.Context(), log, errors.New("busy"), "cannot sweep")
		if !bytes.Contains(lines.Bytes(), []byte(`"level":"error"`)) || !bytes.Contains(lines.Bytes(), []byte("busy")) {
			t.Errorf("a sweep that fails: %s", &lines)
		}
	})
}

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

// A start also looks its owner up, and has more to do than that.
func TestALookupLeavesAStartItsTime(t *testing.T) {
	t.Parallel()
	if owner.Patience > startBound*2/3 {
		t.Errorf("a start has %s in all, and its lookup takes %s of it", startBound, owner.Patience)
	}
}
