package shim

import (
	"errors"

	"github.com/bellows-ml/bellows/agent/run"
)

// lockReturn gives the devices' locks back in the end. The loop owns it.
type lockReturn struct {
	*shared

	shim   run.Process // this one
	own    *locks
	taking bool // the preparations are taking them

	looking, returned bool // they are being looked at, were found free
	next              int64
	pauses            pauses
	reported          bool // that one is held outside of the containment
}

// free reports whether the devices' locks are there for the next. That is
// looked at beside, since the locks' files lie on a disk: an answer is the next event.
func (l *lockReturn) free(now int64) bool {
	switch {
	case l.returned:
		return true
	case l.looking:
	case now < l.next:
		l.alarm.at(l.next)
	default:
		l.looking = true
		own := l.own
		l.own = nil
		go l.giveBack(own)
	}
	return false
}

// giveBack gives up our own locks. What of the run has one without being in the
// containment is killed; others who have one, though they are none of the run's, keep a
// lock that stands for nothing any more.
func (l *lockReturn) giveBack(own *locks) {
	var err error
	if own != nil {
		err = own.close()
	}
	files := locksOf(l.order, l.dir)
	held, errBack := files.giveBack()
	err = errors.Join(err, errBack)
	if len(held) > 0 {
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
	}
	l.post(func() {
		l.looking, l.returned = false, len(held) == 0
		l.next = Boottime() + l.pauses.next()
		if !l.returned && !l.reported {
			l.reported = true
			l.log.Error().Strs("locks", held).Msg("device locks are held outside of the containment")
		}
	})
}

// sweeper looks for what of the run is outside of the containment.
func (l *lockReturn) sweeper() *sweeper {
	return &sweeper{dir: l.dir, owner: &l.order.Owner.UID, shim: l.shim, contained: l.containment.group != nil}
}
