package service

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/systemd"
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
