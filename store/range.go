package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/record"
)

const (
	// pageKeys bounds one answer of a listing, so that it neither exceeds the size
	// of a message nor delays etcd's writers.
	pageKeys = 2000
	// listAttempts bounds how often a listing starts again because etcd compacted
	// the revision at which it reads.
	listAttempts = 3
)

// Get reads one key, and whether it exists.
func (s *Store) Get(ctx context.Context, key string) (kv record.KV, exists bool, err error) {
	defer s.observed("get", time.Now(), &err)
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	answer, err := s.client.Get(ctx, key)
	if err != nil {
		return record.KV{}, false, fmt.Errorf("get %s: %w", key, Named(err))
	}
	if len(answer.Kvs) == 0 {
		return record.KV{}, false, nil
	}
	return recordKV(answer.Kvs[0]), true, nil
}

// Range lists the keys that begin with any of the prefixes, each once and in
// order, all as they were at the revision returned, which is no older than the
// call. Each page of a big listing has a call's time of its own.
func (s *Store) Range(ctx context.Context, prefixes ...string) ([]record.KV, int64, error) {
	prefixes = disjoint(prefixes)
	var err error
	for range listAttempts {
		var kvs []record.KV
		var revision int64
		if kvs, revision, err = s.list(ctx, prefixes); err == nil {
			return kvs, revision, nil
		}
		if !errors.Is(err, record.ErrCompacted) {
			break
		}
	}
	return nil, 0, fmt.Errorf("list %s: %w", strings.Join(prefixes, " and "), err)
}

// list reads every prefix at the revision of the first answer.
func (s *Store) list(ctx context.Context, prefixes []string) ([]record.KV, int64, error) {
	var out []record.KV
	var revision int64
	for _, prefix := range prefixes {
		from, end := cmp.Or(prefix, "\x00"), clientv3.GetPrefixRangeEnd(prefix) // etcd has no empty key
		for more := true; more; {
			answer, err := s.page(ctx, from, end, revision)
			if err != nil {
				return nil, 0, Named(err)
			}
			if revision == 0 {
				revision = answer.Header.Revision
			}
			for _, kv := range answer.Kvs {
				out = append(out, recordKV(kv))
			}
			if more = answer.More; more {
				from = out[len(out)-1].Key + "\x00"
			}
		}
	}
	return out, revision, nil
}

// page reads up to pageKeys keys in [from, end), at a revision if it is not 0.
func (s *Store) page(ctx context.Context, from, end string, revision int64) (answer *clientv3.GetResponse, err error) {
	defer s.observed("list", time.Now(), &err)
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	return s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageKeys), clientv3.WithRev(revision))
}

// disjoint sorts prefixes and drops those that lie below another.
func disjoint(prefixes []string) []string {
	sorted := slices.Sorted(slices.Values(prefixes))
	out := sorted[:0]
	for _, p := range sorted {
		if len(out) == 0 || !strings.HasPrefix(p, out[len(out)-1]) {
			out = append(out, p)
		}
	}
	return out
}

func recordKV(kv *mvccpb.KeyValue) record.KV {
	return record.KV{
		Key:            string(kv.Key),
		Value:          kv.Value,
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Lease:          kv.Lease,
	}
}
