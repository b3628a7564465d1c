package saves

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

// Where the run directory cannot be written to, etcd keeps what is lost.
func TestALostSaveIsKeptInEtcdWhereTheDiskDoesNot(t *testing.T) {
	t.Parallel()
	sv, here := alive(t, zerolog.Nop())
	key := record.SavedKey("n1", "j", 1, 5)
	sv.keepLost(t.Context(), loss{filepath.Join(t.TempDir(), "is-not-there"), 5, key, here}, lostWork("sync: input/output error").Value)
	kv, exists, err := sv.store.Get(t.Context(), key)
	var got record.Saved
	if err = errors.Join(err, json.Unmarshal(kv.Value, &got)); err != nil || !exists || got.Lost != "sync: input/output error" {
		t.Errorf("recorded %+v, %v", got, err)
	}
}

// A lost save is tried to be kept as long as an agent could come upon it again, and
// no longer.
func TestALostSaveOfWhatIsGoneIsNotKeptForEver(t *testing.T) {
	t.Parallel()
	log := &agenttest.Log{}
	sv, earlier := alive(t, zerolog.New(log))
	earlier.Revision--
	none, key := filepath.Join(t.TempDir(), "is-not-there"), record.SavedKey("n1", "j", 1, 5)
	lost := lostWork("sync: input/output error").Value
	sv.keepLost(t.Context(), loss{none, 5, key, earlier}, lost)
	if _, exists, err := sv.store.Get(t.Context(), key); exists || err != nil {
		t.Error("an earlier life's save is recorded in this one")
	}

	// A directory that cannot be written to now may be another time.
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kept := make(chan struct{})
	go func() { defer close(kept); sv.keepLost(t.Context(), loss{dir, 5, key, earlier}, lost) }()
	agenttest.Eventually(t, "a failed attempt", func() bool { return strings.Contains(log.String(), "yet, trying again") })
	select {
	case <-kept:
		t.Error("given up, and its directory is there")
	case <-time.After(5 * loop.RetryFirst):
	}
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	<-kept
	if _, err := os.Stat(filepath.Join(dir, "lost-5")); err != nil {
		t.Error(err)
	}
}

// A digest that an agent's end has cut short is not lost: the next agent does it.
func TestWhatIsCutShortIsNotLost(t *testing.T) {
	t.Parallel()
	own := Folder{Owner: cluster.Owner{UID: uint32(os.Geteuid())}}
	foreign := Folder{Owner: cluster.Owner{UID: own.Owner.UID + 1}}
	fault := &dirblob.Fault{Text: "sync: input/output error"}
	for _, c := range []struct {
		in   Folder
		err  error
		want bool
	}{
		{own, nil, false},
		{own, context.Canceled, false},
		{own, errors.New("sync: input/output error"), true},
		{own, context.DeadlineExceeded, true},
		{foreign, fault, true},
		{foreign, errors.New("signal: killed"), false},
		{foreign, errors.Join(fault, context.Canceled), false},
	} {
		if got := c.in.conclusive(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
		}
	}
}

// A file that says why a save is lost is read by the next agent, whatever else lies there.
func TestLostSavesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"lost-x": "", "order.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writeLost(dir, 5, "first"), writeLost(dir, 5, "because of this"), writeLost(dir, 12, strings.Repeat("x", 9<<10))); err != nil {
		t.Fatal(err)
	}
	r := NewRun()
	r.ReadLost(dir)
	if w := r.Digests[5]; len(r.Digests) != 2 || !w.Done || w.Err != "because of this" || w.Value.Lost != w.Err || time.Since(w.Value.At) > time.Hour {
		t.Errorf("read %+v", r.Digests)
	}
	if w := r.Digests[12]; len(w.Err) > record.MaxReason {
		t.Errorf("%d bytes", len(w.Err))
	}
}

// alive is what works on checkpoints of a node that is in a cluster, and guards its records.
func alive(t *testing.T, log zerolog.Logger) (*Saves, record.Compare) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{etcdtest.Endpoint(t)}, DialTimeout: agenttest.Patience, CallTimeout: agenttest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	key := record.AliveKey("n1")
	out := s.Commit(t.Context(), record.Txn{ID: "alive", Then: []record.Op{record.Put(key, record.Alive{})}})
	if out.Result != record.Applied {
		t.Fatal(out.Err)
	}
	return New(loop.New(t.Context(), log), Config{Node: "n1"}, s), record.SameLife(key, out.Revision)
}
