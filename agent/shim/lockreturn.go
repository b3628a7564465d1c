package shim

import (
	"errors"
	"time"

	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/sweep"
)

// lockReturn gives the devices' locks back in the end.
type lockReturn struct {
	*shared
	shim run.Process // this one
}

// giveBack gives up our own locks, and returns when the next run can have them. It runs beside the loop, since the locks'
// files lie on a disk. What of the run has a lock without being in the containment is killed; others who have one, though
// they are none of the run's, keep a lock that stands for nothing any more.
func (l lockReturn) giveBack(own *devicelock.Locks) {
	var err error
	if own != nil {
		err = own.Close()
	}
	reported := false
	for pause := pauses(0); ; {
		files := devicelock.Of(l.order.LockDir, l.member.Devices, l.dir)
		held, errBack := files.GiveBack()
		if err = errors.Join(err, errBack); len(held) > 0 {
			left, seen, errKill := l.outside().Kill()
			if err = errors.Join(err, errKill); errKill == nil && !left {
				err = errors.Join(err, files.Clear(seen))
			}
		}
		if err != nil {
			l.log.Error().Err(err).Msg("free the device locks")
			err = nil
		}
		if len(held) == 0 {
			l.post(func() { l.facts.LocksFree = true })
			return
		}
		if !reported {
			reported = true
			l.log.Error().Strs("locks", held).Msg("device locks are held outside of the containment")
		}
		select {
		case <-l.done:
			return
		case <-time.After(time.Duration(pause.next())):
		}
	}
}

// outside is what of the run is not in the containment.
func (l lockReturn) outside() sweep.Outside {
	return sweep.Outside{Dir: l.dir, Owner: l.order.Owner.UID, Shim: l.shim, Contained: l.containment.Grouped()}
}
