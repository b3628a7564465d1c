package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/systemd"
	"github.com/bellows-ml/bellows/internal/trust"
)

// aliveEvery is how often a service says that it lives: several times in the
// WatchdogSec of its unit.
const aliveEvery = 5 * time.Second

// alive tells the service manager, if there is one, that the service is ready,
// and from then on that it lives, until the function it returns is called.
func alive(ctx context.Context, log zerolog.Logger) (stop func()) {
	if err := systemd.Ready(); err != nil {
		log.Warn().Err(err).Msg("cannot tell that it is ready")
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := systemd.Alive(); err != nil {
					log.Warn().Err(err).Msg("cannot tell systemd's watchdog")
				}
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// unmended is a fault of what a service was told, which only a person can mend:
// it ends with the status with which its unit does not start it again. A
// certificate that is not valid now is none: the clock may be set late at boot, and
// a renewed one be copied, by somebody who does not look at the unit. Nor is a
// directory of users that does not answer yet.
func unmended(err error) error {
	if errors.Is(err, trust.ErrPasses) || errors.Is(err, errNoDirectory) {
		return err
	}
	return fault.AsUsage(err)
}
