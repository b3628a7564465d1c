package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// A save whose digest has failed is not digested again on any request: the next
// agent finds nothing wrong with it, as with a file whose fsync has failed once.
func TestALostSaveIsLostToTheNextAgentToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	stop := f.agent(s)
	script := filepath.Join(f.dir, "saves.py")
	if err := os.WriteFile(script, []byte(`
import os, time, bellows
def bad(directory):
    open(os.path.join(directory, "state"), "w").close()
    os.symlink("/etc/passwd", os.path.join(directory, "out"))
def good(directory):
    open(os.path.join(directory, "state"), "w").close()
bellows.save(5, bad, samples=40)
while not os.path.exists("go"): time.sleep(0.05)
bellows.save(6, good, samples=48)
while not bellows.should_stop(7): time.sleep(0.05)
`), 0o644); err != nil {
		t.Fatal(err)
	}
	j := f.job("loses", []string{"/usr/bin/python3", script}, map[string]int{"n1": 1}, "n1")
	f.start(j)
	f.problem(j, "checkpoint of step 5 is lost", "save plain files only")
	lost := await[record.Saved](f, record.SavedKey("n1", j.Job, 1, 5))
	if lost.Lost == "" || len(lost.Of()) > 0 {
		t.Errorf("recorded %+v", lost)
	}
	stop()
	if err := os.Remove(filepath.Join(f.dir, "ck", "loses", "g00000001", "step-000000000005", "rank-00000", "out")); err != nil {
		t.Fatal(err)
	}
	f.commit(record.Delete(record.SavedKey("n1", j.Job, 1, 5))) // as if etcd had not been there
	f.agent(s)
	if again := await[record.Saved](f, record.SavedKey("n1", j.Job, 1, 5)); again.Lost == "" {
		t.Errorf("the next agent recorded %+v", again)
	}
	f.tell("go")
	if offer := await[record.Offer](f, record.OfferKey("n1", j.Job, 1, 6)); offer.Samples != 48 {
		t.Errorf("the save after it: %+v", offer)
	}
	if !f.absent(record.OfferKey("n1", j.Job, 1, 5)) {
		t.Error("the lost save was offered")
	}
}

// Where the run directory cannot be written to, etcd keeps what is lost.
func TestALostSaveIsKeptInEtcdWhereTheDiskDoesNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	key := record.SavedKey("n1", "j", 1, 5)
	n.saves.keepLost(t.Context(), loss{filepath.Join(t.TempDir(), "is-not-there"), 5, key, n.session.stillHere()}, lostWork("sync: input/output error").Value)
	if got := await[record.Saved](f, key); got.Lost != "sync: input/output error" {
		t.Errorf("recorded %+v", got)
	}
}

// A lost save is tried to be kept as long as an agent could come upon it again, and
// no longer.
func TestALostSaveOfWhatIsGoneIsNotKeptForEver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	here := n.session.stillHere()
	earlier := here
	earlier.Revision--
	none, key := filepath.Join(t.TempDir(), "is-not-there"), record.SavedKey("n1", "j", 1, 5)
	lost := lostWork("sync: input/output error").Value
	n.saves.keepLost(t.Context(), loss{none, 5, key, earlier}, lost)
	if !f.absent(key) {
		t.Error("an earlier life's save is recorded in this one")
	}

	// A directory that cannot be written to now may be another time.
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	n.shared.log = zerolog.New(log)
	kept := make(chan struct{})
	go func() { defer close(kept); n.saves.keepLost(t.Context(), loss{dir, 5, key, earlier}, lost) }()
	f.until("a failed attempt", func() bool { return strings.Contains(log.String(), "yet, trying again") })
	select {
	case <-kept:
		t.Error("given up, and its directory is there")
	case <-time.After(5 * retryFirst):
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
	own := folder{owner: cluster.Owner{UID: uint32(os.Geteuid())}}
	foreign := folder{owner: cluster.Owner{UID: own.owner.UID + 1}}
	fault := &dirblob.Fault{Text: "sync: input/output error"}
	for _, c := range []struct {
		in   folder
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
	r := &hosted{dir: dir, digests: map[int64]agent.Work[record.Saved]{}}
	r.readLost()
	if w := r.digests[5]; len(r.digests) != 2 || !w.Done || w.Err != "because of this" || w.Value.Lost != w.Err || time.Since(w.Value.At) > time.Hour {
		t.Errorf("read %+v", r.digests)
	}
	if w := r.digests[12]; len(w.Err) > record.MaxReason {
		t.Errorf("%d bytes", len(w.Err))
	}
}
