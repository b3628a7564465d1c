package render

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
)

// Stop says what a stop that was accepted comes to.
func Stop(r api.StopReply, now bool, zone *time.Location) string {
	by := ""
	if r.SaveUntil != nil {
		by = ", until " + r.SaveUntil.In(zone).Format("15:04:05") + " at most"
	} else if r.SaveWithinS > 0 {
		by = fmt.Sprintf(", within %s at most", units.Span(time.Duration(r.SaveWithinS*float64(time.Second))))
	}
	saves := r.Phase == cluster.Running || r.Phase == cluster.Starting || r.Phase == cluster.Halting
	switch {
	case r.Ended:
		return fmt.Sprintf("%s has ended already: %s", r.ID, r.Phase)
	case now:
		return r.ID + ": asked to stop at once: it is killed, and what it has not saved is lost"
	case r.Stopping && saves:
		return fmt.Sprintf("%s: was asked to stop before, and saves first%s; bellows stop --now %s kills it, and what it has not saved is lost", r.ID, by, r.ID)
	case saves:
		return fmt.Sprintf("%s: asked to stop; it saves first%s", r.ID, by)
	}
	return r.ID + ": asked to stop"
}
