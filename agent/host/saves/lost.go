package saves

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
)

// A save that could not be made durable is lost for good: the kernel tells of an
// fsync that failed once, and the next one succeeds without the data being there.
// So it is written down before anything else is done, in the run directory or,
// where that cannot be written to, in etcd, and an agent that is started after
// that does not digest the save again. In etcd it is recorded in any case.

// lostPrefix begins the name of a file in a run directory that says why the save
// of a step is lost.
const lostPrefix = "lost-"

// conclusive reports whether a task on a run's checkpoints has come to an end, and
// was not merely cut short with this agent or with its own process.
func (f Folder) conclusive(err error) bool {
	var fault *dirblob.Fault
	own := uint64(f.Owner.UID) == uint64(os.Geteuid()) //nolint:gosec // a uid is not negative
	return err != nil && !errors.Is(err, context.Canceled) && (own || errors.As(err, &fault))
}

// loss is where it is written down that the save of a step is lost.
type loss struct {
	dir  string // the run directory
	step int64
	key  string // of its record
	here record.Compare
}

// keepLost returns once that is durable, or the context ends, or there is no place
// for it any more, and nothing that could digest the save again.
func (sv *Saves) keepLost(ctx context.Context, l loss, saved record.Saved) {
	err := loop.Persist(ctx, sv.Log, "write down that a save is lost", func() (bool, error) {
		err := writeLost(l.dir, l.step, saved.Lost)
		if err == nil {
			return false, nil
		}
		out := sv.store.Commit(ctx, record.Txn{
			ID: "lost " + l.key, If: []record.Compare{l.here, record.Absent(l.key)}, Then: []record.Op{record.Put(l.key, saved)},
		})
		_, there, errGet := sv.store.Get(ctx, l.key)
		if out.Result == record.Applied || errGet == nil && there { // of an attempt without an answer
			return false, nil
		}
		final := sv.gone(ctx, l)
		return final, cmp.Or(errors.Join(err, out.Err, errGet), errChanged)
	})
	if err != nil && ctx.Err() == nil {
		sv.Log.Warn().Err(err).Str("key", l.key).Msg("a lost save is not written down: its run directory is gone, and so is that life of the node")
	}
}

// errChanged says that a record was not as a transaction expected.
var errChanged = errors.New("the records have changed meanwhile")

// gone reports whether no agent can come upon the save again: its run directory is
// gone, and the life of the node is over in which it would be recorded.
func (sv *Saves) gone(ctx context.Context, l loss) bool {
	if _, err := os.Lstat(l.dir); !errors.Is(err, os.ErrNotExist) {
		return false
	}
	alive, exists, err := sv.store.Get(ctx, l.here.Key)
	return err == nil && (!exists || alive.CreateRevision != l.here.Revision)
}

// writeLost writes the file, durable.
func writeLost(dir string, step int64, why string) error {
	return durable.Write(filepath.Join(dir, lostPrefix+strconv.FormatInt(step, 10)), []byte(why), 0o600)
}

// ReadLost takes in what an earlier agent has written into the run directory: those saves are not
// digested again.
func (r *Run) ReadLost(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, lostPrefix+"*"))
	if err != nil {
		return // the pattern is ours
	}
	for _, name := range names {
		step, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(name), lostPrefix), 10, 64)
		if err != nil {
			continue
		}
		why, err := os.ReadFile(name)
		if err != nil {
			why = []byte("its digest has failed: " + err.Error())
		}
		r.Digests[step] = lostWork(string(why))
	}
}

// lostWork is a digest that came to nothing.
func lostWork(why string) agent.Work[record.Saved] {
	why = record.Reason(why)
	return agent.Work[record.Saved]{Done: true, Err: why, Value: record.Saved{Lost: why, At: time.Now(), Samples: -1}}
}
