package loop

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

const (
	// RetryFirst is the first pause between attempts at what etcd or a disk refused: short, because most troubles are.
	RetryFirst = 100 * time.Millisecond
	// RetryLast is the longest: never longer than people wait for a node to come back.
	RetryLast = 3 * time.Second

	// complainEvery is how often a trouble that lasts is logged again.
	complainEvery = 5 * time.Second
)

// Persist calls f until it returns no error, or that its error is final, or the
// context ends. It logs a trouble when it begins and every few seconds.
func Persist(ctx context.Context, log zerolog.Logger, what string, f func() (final bool, err error)) error {
	pause, complained := RetryFirst, time.Time{}
	for {
		final, err := f()
		if err == nil || final {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(complained) >= complainEvery {
			complained = time.Now()
			log.Warn().Err(err).Msg("cannot " + what + " yet, trying again")
		}
		if !Rest(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, RetryLast)
	}
}

// Rest waits, and reports whether the context is still going on.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
