package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/coordinator/lead"
	"github.com/bellows-ml/bellows/internal/trust"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

// memberWithin bounds the end of an embedded etcd, whose leadership is handed over first.
const memberWithin = 5 * time.Second

// Candidate is what a coordinator does.
type Candidate struct {
	Lead    lead.Config
	Etcd    store.Config
	Member  *server.Config // nil = this service does not run etcd
	Cluster string
	Metrics string // address at which they are served; empty = nowhere
	// Identity is this server's; nil = it has none.
	Identity *trust.Identity
}

// coordinate runs etcd if it is to, and leads, or waits to, until the context ends.
func coordinate(ctx context.Context, k Candidate) error {
	if k.Member == nil {
		return campaign(ctx, k)
	}
	etcd, err := server.Start(ctx, *k.Member)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	k.Lead.Log.Info().Str("etcd", etcd.Endpoint()).Str("data", k.Member.DataDir).Msg("etcd runs here")
	k.Etcd.Endpoints = []string{etcd.Endpoint()}
	life, end := context.WithCancel(ctx)
	defer end()
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-etcd.Ended():
			end()
		case <-life.Done():
		}
	})
	select {
	case <-etcd.Ready():
		err = campaign(life, k)
	case <-life.Done():
	}
	end()
	watcher.Wait()
	select {
	case <-etcd.Ended():
		err = errors.Join(err, etcd.Err())
	default:
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberWithin)
	defer cancel()
	if closeErr := etcd.Close(closing); closeErr != nil {
		// What was answered is on disk, and the others notice.
		k.Lead.Log.Warn().Err(closeErr).Msg("etcd takes long to end, going without")
	}
	return err
}

// campaign leads, or waits to, until the context ends.
func campaign(ctx context.Context, k Candidate) error {
	cfg := k.Lead
	cfg.Log.Info().Strs("etcd", k.Etcd.Endpoints).Msg("connecting to etcd")
	for cfg.Store == nil {
		st, err := store.Open(ctx, k.Etcd)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrUnreachable):
			cfg.Log.Warn().Err(err).Strs("etcd", k.Etcd.Endpoints).Msg("etcd does not answer, trying again")
		case err != nil:
			return err
		default:
			cfg.Store = st
		}
	}
	_, err := cfg.Store.EnsureMeta(ctx, k.Cluster)
	if err == nil {
		defer alive(ctx, cfg.Log)()
		err = lead.Run(ctx, cfg)
	}
	if ctx.Err() != nil {
		err = nil // told to end, or etcd has
	}
	return errors.Join(err, cfg.Store.Close())
}
