package shim

import (
	"errors"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
)

// lockReturn gives the devices' locks back in the end.
type lockReturn struct {
	*shared
	shim run.Process // this one
}

// giveBack gives up our own locks, and returns when the next run can have them. It runs beside the loop, since the locks'
// files lie on a disk. What of the run has a lock without being in the containment is killed; others who have one, though
// they are none of the run's, keep a lock that stands for nothing any more.
func (l lockReturn) giveBack(own *locks) {
	var err error
	if own != nil {
		err = own.close()
	}
	reported := false
	for pause := pauses(0); ; {
		files := locksOf(l.order, l.dir)
		held, errBack := files.giveBack()
		if err = errors.Join(err, errBack); len(held) > 0 {
			s := l.sweeper()
			c, errFind := observed.census()
			if err = errors.Join(err, errFind); errFind == nil {
				s.seen = c
				found := c.marked(s.dir, s.owner)
				err = errors.Join(err, killAll(nil, found))
				if len(found) == 0 {
					err = errors.Join(err, files.clear(s.nothingHidden()))
				}
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

// sweeper looks for what of the run is outside of the containment.
func (l lockReturn) sweeper() *sweeper {
	return &sweeper{dir: l.dir, owner: &l.order.Owner.UID, shim: l.shim, contained: l.containment.group != nil}
}
