package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellows-ml/bellows/record"
)

// ErrNoCluster is the error of CheckMeta where no cluster has been made yet.
var ErrNoCluster = errors.New("no Bellows cluster in this etcd: start a coordinator, which makes one, or set --etcd to the right etcd")

// EnsureMeta verifies that this etcd belongs to the cluster of this name, in the
// format of this version. It creates the meta record if there is none; otherwise it
// only reads, so it works while etcd refuses writes. While etcd does not answer, as
// without a quorum, it logs that and tries again until ctx ends: a coordinator that
// ended instead would take the member of etcd that it runs with it.
func (s *Store) EnsureMeta(ctx context.Context, cluster string) (record.Meta, error) {
	for {
		meta, err := s.ensureMeta(ctx, cluster)
		if err == nil || ctx.Err() != nil || s.ctx.Err() != nil || errors.Is(err, ErrUnfit) || Refused(err) {
			return meta, err
		}
		s.cfg.Log.Warn().Err(err).Str("cluster", cluster).Msg("cannot verify which cluster this etcd belongs to yet, trying again")
		s.pauseAfter(ctx, err)
	}
}

func (s *Store) ensureMeta(ctx context.Context, cluster string) (record.Meta, error) {
	if meta, err := s.CheckMeta(ctx, cluster); !errors.Is(err, ErrNoCluster) {
		return meta, err
	}
	want := record.Meta{Format: record.Format, Cluster: cluster}
	out := s.Commit(ctx, record.Txn{
		ID:   "meta",
		If:   []record.Compare{record.Absent(record.MetaKey)},
		Then: []record.Op{record.Put(record.MetaKey, want)},
	})
	if out.Result != record.Applied && out.Err != nil {
		return record.Meta{}, fmt.Errorf("ensure meta of cluster %q: %w", cluster, out.Err)
	}
	return s.CheckMeta(ctx, cluster)
}

// CheckMeta reads the meta record and refuses an etcd that holds another
// cluster, or another format than this version's. An empty name takes any.
func (s *Store) CheckMeta(ctx context.Context, cluster string) (record.Meta, error) {
	kv, exists, err := s.Get(ctx, record.MetaKey)
	switch {
	case err != nil:
		return record.Meta{}, err
	case !exists:
		return record.Meta{}, ErrNoCluster
	}
	var meta record.Meta
	if err := json.Unmarshal(kv.Value, &meta); err != nil {
		return record.Meta{}, Unfitf("read %s: %.80q is not a meta record: %w: this etcd serves something else, set --etcd to another",
			record.MetaKey, kv.Value, err)
	}
	switch {
	case meta.Format != record.Format:
		return meta, Unfitf("%s: format %d, this version of Bellows reads format %d: run the version that the cluster's other nodes run",
			record.MetaKey, meta.Format, record.Format)
	case cluster != "" && meta.Cluster != cluster:
		return meta, Unfitf("%s: this etcd belongs to cluster %q, not %q: set --cluster %s, or --etcd to another etcd",
			record.MetaKey, meta.Cluster, cluster, meta.Cluster)
	}
	return meta, nil
}
