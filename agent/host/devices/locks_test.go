package devices

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/host/loop"
)

func TestHoldersOfALockAreNotAllNamed(t *testing.T) {
	t.Parallel()
	ds := New(loop.New(t.Context(), zerolog.Nop()), Config{}, func() []Run { return nil })
	ds.occupants.users = users{7: {name: "eve"}}
	var many []devicelock.Holder
	for i := range 100 {
		many = append(many, devicelock.Holder{PID: i, Command: "x", UID: 7})
	}
	if got := ds.locks.openIn(many); !strings.HasSuffix(got, "pid 2 (x) of eve and others") {
		t.Errorf("got %q", got)
	}
	if got := ds.locks.openIn(nil); !strings.Contains(got, "socket") {
		t.Errorf("got %q", got)
	}
}
