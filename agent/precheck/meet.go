package precheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// meetWait is how long rank 0's node may take to make the directory, and a
	// network file system to show it.
	meetWait = 10 * time.Second
	meetPoll = 20 * time.Millisecond

	// MeetingFile is the note of rank 0's node in the directory of a generation's checkpoints.
	MeetingFile = ".bellows-generation"
)

// MeetAtCheckpoint proves that the generation's directory is one and the same on
// all nodes: rank 0's node makes it and leaves a note, the others look for it. It
// is refused where anybody but the owner could have made it, or could exchange it.
// It runs as the owner.
func MeetAtCheckpoint(ctx context.Context, o run.Order) error {
	first := o.World.Members[0].Node
	note := fmt.Sprintf("job=%s generation=%d master=%s node=%s\n", o.World.Job, o.World.Generation, o.World.Master, first)
	if o.Node == first {
		dir, err := openGeneration(o.Checkpoint, true)
		if err != nil {
			return unwritable(o, err, "choose a base directory that the owner can write to on every node")
		}
		if err = errors.Join(writeNote(dir, MeetingFile, note), dir.Close()); err != nil {
			return unwritable(o, err, "let the owner write there")
		}
		return nil
	}
	dir, err := awaitNote(ctx, o.Checkpoint, note)
	switch {
	case errors.Is(err, owned.ErrForeign):
		return unwritable(o, err, "")
	case err != nil:
		return fmt.Errorf("checkpoint_dir %s is not the same directory on node %s and node %s (%w): use a file system that both see",
			o.Checkpoint, o.Node, first, err)
	}
	defer dir.Close()
	probe := MeetingFile + "-" + string(o.Node)
	if err = writeNote(dir, probe, note); err != nil {
		return unwritable(o, err, "let the owner write there from every node")
	}
	return dir.Remove(probe)
}

// unwritable adds a remedy to the error of a job that cannot save: a full disk needs
// room and not rights, and the error of another user's folder has its own remedy.
func unwritable(o run.Order, err error, remedy string) error {
	switch kind := FailureOf(err); {
	case kind == record.NoSpace:
		remedy = "make room there; the job starts again by itself"
	case kind == record.Transient:
		remedy = "look at its file system, or " + remedy
	case errors.Is(err, owned.ErrForeign):
		return fmt.Errorf("checkpoint_dir %s: %w", o.Checkpoint, err)
	}
	return fmt.Errorf("checkpoint_dir %s: %w: %s", o.Checkpoint, err, remedy)
}

// openGeneration opens <base>/<job>/<generation>, or makes what of it is not there.
func openGeneration(checkpoint string, create bool) (*os.Root, error) {
	open := owned.Open
	if create {
		open = owned.Make
	}
	job, err := open(filepath.Dir(checkpoint))
	if err != nil {
		return nil, err
	}
	defer job.Close()
	return owned.Enter(job, filepath.Base(checkpoint), create)
}

// writeNote replaces the file as a whole: a reader sees all of it or nothing. It
// writes to nothing that is there already, whatever that is or leads to.
func writeNote(dir *os.Root, name, note string) error {
	tmp := name + ".tmp"
	if err := dir.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(note)
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(tmp, name)
	}
	return err
}

// awaitNote returns the generation's directory once the note is in it.
func awaitNote(ctx context.Context, checkpoint, want string) (*os.Root, error) {
	ctx, cancel := context.WithTimeout(ctx, meetWait)
	defer cancel()
	poll := time.NewTicker(meetPoll)
	defer poll.Stop()
	for {
		dir, err := openGeneration(checkpoint, false)
		if err == nil {
			if err = checkNote(dir, want); err == nil {
				return dir, nil
			}
			_ = dir.Close() // nothing was written
		}
		if errors.Is(err, owned.ErrForeign) { // it does not become the owner's by itself
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-poll.C:
		}
	}
}

// maxNote bounds what is read of a note: names and an address.
const maxNote = 4 << 10

func checkNote(dir *os.Root, want string) error {
	f, err := dir.OpenFile(MeetingFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err == nil && string(got) != want {
		err = fmt.Errorf("its note says %q", cluster.Printable(string(got)))
	}
	return err
}
