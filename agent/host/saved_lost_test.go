package host

import (
	"os"
	"path/filepath"
	"testing"

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
