package e2e

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// history returns everything that was ever written, from etcd's own history.
func (f *fleet) history() []record.Change {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	last := f.mirror().Revision
	w := f.store.Watch(ctx, 1, record.Root)
	var all []record.Change
	for b := range w.C {
		all = append(all, b.Changes...)
		if b.Revision >= last {
			break
		}
	}
	if err := w.Close(); err != nil {
		f.t.Fatal(err)
	}
	return all
}
