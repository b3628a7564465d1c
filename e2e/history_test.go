package e2e

import (
	"context"

	"github.com/bellows-ml/bellows/record"
)

// history returns everything that was ever written, from etcd's own history.
func (r *records) history() []record.Change {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := r.mirror().Revision
	w := r.store.Watch(ctx, 1, record.Root)
	var all []record.Change
	for b := range w.C {
		all = append(all, b.Changes...)
		if b.Revision >= last {
			break
		}
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
	return all
}
