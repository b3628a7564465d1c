package service

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/trust"
)

const (
	// certificateNear is how long before a certificate's end that is told: people
	// who renew once a year need some days for it.
	certificateNear = 30 * 24 * time.Hour
	// certificateEvery is how often it is looked at, and told.
	certificateEvery = 12 * time.Hour
)

// watchCertificate runs run, and tells in the log when this node's certificate is about to end.
func watchCertificate(ctx context.Context, identity *trust.Identity, log zerolog.Logger, run func() error) error {
	if identity == nil {
		return run()
	}
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(certificateEvery)
		defer tick.Stop()
		for {
			warnOfEnd(log, identity, time.Now())
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	defer wg.Wait()
	defer end()
	return run()
}

// warnOfEnd says what ends with a certificate while it can be renewed without harm.
func warnOfEnd(log zerolog.Logger, identity *trust.Identity, now time.Time) {
	ends := identity.Ends()
	if ends.IsZero() || ends.Sub(now) > certificateNear {
		return
	}
	log.Warn().Time("ends", ends).Msgf("the certificate of this node ends soon, and with it logs and an embedded etcd are out of reach: "+
		"bellows tls renew %s, and copy it here; no restart is needed", identity.Node())
}
