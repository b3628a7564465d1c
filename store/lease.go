package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

// Boottime returns the time since the machine started, including sleep
// (CLOCK_BOOTTIME): the clock for leases. The wall clock jumps, and Go's own
// monotonic clock stops while the machine sleeps.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("store: read CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// Grant creates a lease of at least ttl, rounded up to whole seconds and to etcd's own minimum of about 2 s.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (id int64, err error) {
	defer s.observed("grant", time.Now(), &err)
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	answer, err := s.client.Grant(ctx, int64(math.Ceil(ttl.Seconds())))
	if err != nil {
		return 0, fmt.Errorf("grant lease of %v: %w", ttl, Named(err))
	}
	return int64(answer.ID), nil
}

// Renew sends one renewal and returns the time of sending, on Boottime: the lease
// lasts at least its TTL from then on. After an error other than
// record.ErrLeaseNotFound, etcd may or may not have renewed it.
//
// The client library's KeepAlive does not serve: its channel closes only after the
// lease has expired, and it counts from the arrival of answers. KeepAliveOnce may
// send several times in one call.
func (s *Store) Renew(ctx context.Context, id int64) (sentAt time.Duration, err error) {
	defer s.observed("renew", time.Now(), &err)
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	sentAt = Boottime()
	ttl, err := s.renewOnce(ctx, id)
	if err == nil && ttl <= 0 {
		err = record.ErrLeaseNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("renew lease %x: %w", id, Named(rpctypes.Error(err)))
	}
	return sentAt, nil
}

func (s *Store) renewOnce(ctx context.Context, id int64) (ttl int64, err error) {
	stream, err := pb.NewLeaseClient(s.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err = stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		return 0, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return answer.TTL, stream.CloseSend()
}

// KeepLease renews a lease at once and then at the given interval, until ctx ends
// or the lease is gone, and returns ctx's error or record.ErrLeaseNotFound. It
// passes the time of sending of each success, on Boottime, to onRenewed; the lease
// is certain only for its TTL from that time. A renewal that fails is tried again
// after a quarter of the interval.
func (s *Store) KeepLease(ctx context.Context, id int64, every time.Duration, onRenewed func(sentAt time.Duration)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-timer.C:
		}
		attempt, cancel := context.WithTimeout(ctx, every)
		sentAt, err := s.Renew(attempt, id)
		cancel()
		switch {
		case err == nil:
			onRenewed(sentAt)
			timer.Reset(every - (Boottime() - sentAt))
		case errors.Is(err, record.ErrLeaseNotFound):
			return err
		default:
			timer.Reset(every / 4)
		}
	}
}

// TimeToLive returns how much time etcd says the lease has left: for display, and
// for leases of other processes. A process's own lease counts from Renew.
func (s *Store) TimeToLive(ctx context.Context, id int64) (time.Duration, error) {
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	answer, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if err == nil && answer.TTL < 0 {
		err = record.ErrLeaseNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("time to live of lease %x: %w", id, Named(err))
	}
	return time.Duration(answer.TTL) * time.Second, nil
}

// Revoke ends a lease and deletes its keys, all at one revision.
func (s *Store) Revoke(ctx context.Context, id int64) (err error) {
	defer s.observed("revoke", time.Now(), &err)
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	if _, err = s.client.Revoke(ctx, clientv3.LeaseID(id)); err != nil {
		return fmt.Errorf("revoke lease %x: %w", id, Named(err))
	}
	return nil
}
