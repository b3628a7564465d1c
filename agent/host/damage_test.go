package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// What happens to a checkpoint after it was committed is found on the node that
// wrote it, too, before anything starts from it.
func TestLaterDamageIsFound(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(model string) error{
		"cut short": func(model string) error { return os.Truncate(model, 100) },
		"rewritten": func(model string) error {
			info, err := os.Stat(model)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(model, []byte(strings.Repeat("x", int(info.Size()))), 0o644),
				os.Chtimes(model, time.Time{}, info.ModTime()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.agent(f.settings("n1"))
			j := f.committed()
			if err := damage(filepath.Join(j.Resume.Dir, "model")); err != nil {
				t.Fatal(err)
			}
			f.start(j)
			if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.CheckpointDamaged || !strings.Contains(failed.Reason, "model") {
				t.Errorf("failed %+v", failed)
			}
			ack[record.Stopped](f, j, "n1", record.AckStopped)
			if !f.absent(record.AckKey("n1", j.Job, 2, record.AckStarted)) {
				t.Error("it was started")
			}
		})
	}
}

// Who has just digested a checkpoint does not read it again, unless it is doubted.
func TestAFreshCheckpointIsReadAgainOnlyWhenDoubted(t *testing.T) {
	t.Parallel()
	for _, doubted := range []bool{false, true} {
		f := newFixture(t)
		s := f.settings("n1")
		log := f.logged(s)
		j := f.committed()
		j.Doubted = doubted
		f.start(j)
		ack[record.Started](f, j, "n1", record.AckStarted)
		if read := strings.Contains(log.String(), "verified the checkpoint to resume from"); read != doubted {
			t.Errorf("doubted %t, read %t", doubted, read)
		}
	}
}

// The files of what is recorded stay, also of what was given up; they go when the record has gone.
func TestFilesStayAsLongAsTheirRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	j := f.committed()
	given := *j.Resume
	root := filepath.Join(f.dir, "ck", string(j.Job))
	f.commit(record.Delete(record.CommittedKey(j.Job)), record.Delete(record.CheckpointKey(j.Job, 1)),
		record.Put(record.BadCheckpointKey(j.Job, 1), record.BadCheckpoint{Checkpoint: given, Reason: reason.Said("given up by me")}))
	j.Resume = nil
	for _, step := range []string{"go-2-1", "go-2-2"} {
		f.tell(step)
	}
	f.start(j)
	second := await[record.Offer](f, record.OfferKey("n1", j.Job, 2, 2)).Checkpoint
	f.commit(record.Put(record.CommittedKey(j.Job), second), record.Put(record.CheckpointKey(j.Job, 2), second))
	f.until("what is in no record to go", func() bool {
		_, err := os.Stat(filepath.Join(root, "g00000002", "step-1"))
		return errors.Is(err, os.ErrNotExist)
	})
	if _, err := os.Stat(filepath.Join(given.Dir, "model")); err != nil {
		t.Errorf("given up, and still in the records: %v", err)
	}
	f.commit(record.Delete(record.BadCheckpointKey(j.Job, 1)))
	f.until("what was given up to go", func() bool {
		_, err := os.Stat(given.Dir)
		return errors.Is(err, os.ErrNotExist)
	})
	if _, err := os.Stat(filepath.Join(second.Dir, "model")); err != nil {
		t.Errorf("committed: %v", err)
	}
}
