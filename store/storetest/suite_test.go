package storetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/storetest"
)

// etcd is the real one, through the store.
type etcd struct {
	*store.Store
	admin *clientv3.Client
}

func (e etcd) Await(ctx context.Context, count int, from int64, prefixes ...string) ([]record.Change, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w := e.Watch(ctx, from, prefixes...)
	var out []record.Change
	for b := range w.C {
		if out = append(out, b.Changes...); len(out) >= count {
			return out, w.Close()
		}
	}
	return nil, w.Err()
}

func (e etcd) Compact(ctx context.Context, revision int64) error {
	_, err := e.admin.Compact(ctx, revision)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return record.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return record.ErrFuture
	}
	return err
}

// start starts an etcd for one test.
func start(t *testing.T) storetest.Subject {
	t.Helper()
	endpoint := etcdtest.Endpoint(t)
	e := etcd{etcdtest.Open(t, endpoint), etcdtest.Client(t, endpoint)}
	return storetest.Subject{Records: e, Leases: e}
}

func TestMemory(t *testing.T) { storetest.Run(t, storetest.Memory(record.NewMemory())) }

func TestEtcd(t *testing.T) { storetest.Run(t, start(t)) }

func TestMemoryAgreesWithEtcd(t *testing.T) {
	actual, imagined := start(t), storetest.Memory(record.NewMemory())
	for seed := range uint64(5) {
		storetest.Agree(t, actual, imagined, seed)
	}
}
