package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/internal/durable"
)

// journalRetry is the pause after a report that could not be written: a full disk
// is made room on by people.
const journalRetry = time.Second

// entry is a report on its way to disk.
type entry struct {
	report   []byte
	sequence int64
}

// reportRoom is what a report has on disk from the beginning. Longer ones, with
// the log tails of failures in many words, take more if there is more.
const reportRoom = 64 << 10

// journal keeps the last report on disk. It writes beside the machine, only ever
// the newest, and tries again until that succeeds: what cannot be written is
// still told to the agent.
//
// A disk that fills up while workers run must not hold up their saves, which are
// confirmed only once they are in a report on disk. So there are two files from
// the beginning, each with its room: a report is written into the spare one, and
// then they change places.
type journal struct {
	path   string
	slot   chan entry // the newest not yet begun
	stored func(sequence int64)
	done   <-chan struct{}
	log    zerolog.Logger
}

// offer replaces what waits to be written. Only the machine calls it.
func (j *journal) offer(e entry) {
	select {
	case <-j.slot:
	default:
	}
	j.slot <- e
}

func (j *journal) run() {
	complained := false
	for {
		var e entry
		select {
		case e = <-j.slot:
		case <-j.done:
			return
		}
		for {
			err := j.write(e.report)
			if err == nil {
				complained = false
				break
			}
			if !complained {
				complained = true
				j.log.Error().Err(err).Msg("write report; trying again until it succeeds")
			}
			select {
			case e = <-j.slot:
			case <-time.After(journalRetry):
			case <-j.done:
				return
			}
		}
		j.stored(e.sequence)
	}
}

func (j *journal) spare() string { return j.path + ".spare" }

// begin writes the first report and makes the spare's room, before any worker is executed.
func (j *journal) begin(report []byte) error {
	err := durable.Write(j.path, padded(report), 0o600)
	if err == nil {
		err = durable.Write(j.spare(), padded(nil), 0o600)
	}
	if err != nil {
		return fmt.Errorf("make room for reports: %w", err)
	}
	return nil
}

// write puts a report in its place, durable.
func (j *journal) write(report []byte) error {
	f, err := os.OpenFile(j.spare(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	b := padded(report)
	_, err = f.WriteAt(b, 0)
	if err == nil { // never shorter than its room
		err = f.Truncate(int64(len(b)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, j.spare(), unix.AT_FDCWD, j.path, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = os.Rename(j.spare(), j.path) // a file system that cannot exchange files goes without the room
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(j.path))
}

// padded fills a report up to its room with what JSON does not mind.
func padded(report []byte) []byte {
	return append(slices.Clone(report), bytes.Repeat([]byte("\n"), max(0, reportRoom-len(report)))...)
}
