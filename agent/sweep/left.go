package sweep

import (
	"errors"
	"os"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
)

// Left says what lives of the run that a lock file names; "" = nothing. It is not
// known of one that has left no trace of itself.
func Left(c devicelock.Claim) (text string, known bool, err error) {
	rec := c.Record
	if rec == nil {
		read, errRead := rundir.ReadRecord(c.Run)
		if c.Run == "" || errors.Is(errRead, os.ErrNotExist) {
			return "", false, nil
		} else if errRead != nil {
			return "", false, errRead
		}
		rec = &read
	}
	if rec.Shim.BootID != proc.BootID() {
		return "", true, nil // the machine was started anew since
	}
	s := sweeper{dir: c.Run, limits: rec.Limits, shim: rec.Shim, workers: rundir.Reported(c.Run, *rec), owner: rundir.OwnerOf(c.Run, *rec)}
	if g := contain.Open(rec.Containment, rec.Cgroup); g != nil {
		s.groups, s.contained = append(s.groups, g), true
	}
	alive, err := s.left()
	if err == nil && len(alive) == 0 && !s.contained {
		err = s.hidden(nil)
	}
	if err != nil || len(alive) > 0 {
		return proc.Names(alive), true, err
	}
	for _, g := range s.groups {
		if _, populated, err := g.Look(); err != nil || populated {
			return "a cgroup that is not empty, but shows no process", true, err
		}
	}
	return "", true, nil
}
