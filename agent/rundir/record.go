package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/durable"
)

var errClaimed = errors.New("another shim hosts this run, or it was swept: adopt it, or remove its directory")

// Claim writes the run record, durable, unless there is one: a run has one shim
// in its life, and two that were started by two agents find out here.
func Claim(dir string, rec Record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode run record: %w", err)
	}
	err = durable.Create(filepath.Join(dir, ShimFile), append(b, '\n'), 0o600)
	if errors.Is(err, os.ErrExist) {
		err = errClaimed
	}
	if err != nil {
		return fmt.Errorf("claim run: %w", err)
	}
	return nil
}

// Reported are the workers in the last report of the run's shim.
func Reported(dir string, rec Record) (workers []run.Process) {
	report, err := ReadReport(dir)
	if err != nil || report.Shim != rec.Shim {
		return nil
	}
	for _, w := range report.Workers {
		workers = append(workers, run.Process{PID: w.PID, StartTime: w.StartTime, BootID: rec.Shim.BootID})
	}
	return workers
}

// ClaimUnclaimed claims a run that has no record: a shim that was started by an
// agent's last breath, and is about to claim it, must find out that it has come too
// late. Without an order that can be read none comes so far.
func ClaimUnclaimed(dir string) (Record, error) {
	none := Record{Version: run.ProtocolVersion}
	err := Claim(dir, none)
	if errors.Is(err, errClaimed) { // this very moment
		return ReadRecord(dir)
	}
	return none, err
}

// RewriteRecord adds to the run record which groups were made after the run was claimed.
func RewriteRecord(dir string, rec Record) error {
	now, err := ReadRecord(dir)
	if err == nil && now.Shim != rec.Shim {
		err = errClaimed
	}
	if err == nil {
		err = durable.WriteJSON(filepath.Join(dir, ShimFile), rec)
	}
	if err != nil {
		return fmt.Errorf("write run record: %w", err)
	}
	return nil
}

// OwnerOf is whom a run's workers run as, by what its directory tells; nil if it
// tells nothing. Records of earlier versions name none: their sockets are the owner's.
func OwnerOf(dir string, rec Record) *uint32 {
	if rec.Owner != nil {
		return rec.Owner
	}
	if order, err := ReadOrder(dir); err == nil {
		return &order.Owner.UID
	}
	info, err := os.Lstat(filepath.Join(dir, run.WorkerSocket))
	if err != nil {
		return nil
	}
	if at, ok := info.Sys().(*syscall.Stat_t); ok {
		return &at.Uid
	}
	return nil
}
