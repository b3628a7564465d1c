package render

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// What a stop does, and what a second one would do, is said before work is lost by it.
func TestStopText(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 1, 31, 12, 3, 4, 0, time.UTC)
	for _, c := range []struct {
		reply api.StopReply
		now   bool
		want  string
	}{
		{api.StopReply{ID: "j", Phase: cluster.Running, SaveWithinS: 120}, false, "j: asked to stop; it saves first, within 2m00s at most"},
		{api.StopReply{ID: "j", Phase: cluster.Halting, SaveUntil: &until}, false, "j: asked to stop; it saves first, until 12:03:04 at most"},
		{
			api.StopReply{ID: "j", Phase: cluster.Halting, SaveUntil: &until, Stopping: true},
			false,
			"j: was asked to stop before, and saves first, until 12:03:04 at most; bellows stop --now j kills it, and what it has not saved is lost",
		},
		{api.StopReply{ID: "j", Phase: cluster.Halting, Stopping: true}, true, "j: asked to stop at once: it is killed, and what it has not saved is lost"},
		{api.StopReply{ID: "j", Phase: cluster.Queued, SaveWithinS: 120}, false, "j: asked to stop"},
		{api.StopReply{ID: "j", Phase: cluster.Succeeded, Ended: true}, true, "j has ended already: succeeded"},
	} {
		if got := Stop(c.reply, c.now, time.UTC); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
