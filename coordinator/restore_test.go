package coordinator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// A job that a restored etcd does not know keeps nothing of what it was granted: another
// one starts on its devices at once, not only after the next interval.
func TestAJobThatIsLostWithEtcdHoldsNoDevices(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, "node n1 gpus=2\nsubmit k workers=2..2\nstarted k\nadvance 1m")
	backup := l.mem.Backup()
	play(t, l, "stop k now\nstopped k\nsubmit j workers=2..2")
	if !slices.ContainsFunc(l.answers(), func(s string) bool { return strings.HasPrefix(s, "txn start j-aaaaaa") }) {
		t.Fatal("the job that will be lost has not started")
	}
	l.mem.Restore(backup)
	l.reload()
	l.answers()
	play(t, l, "stop k now\nstopped k\nsubmit i workers=2..2")
	if said := l.answers(); !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "txn start i-aaaaaa") }) {
		t.Errorf("it does not start: %s", strings.Join(said, "\n"))
	}
	if grants := recorded[record.Grant](l.mem, record.GrantKey("n1", "i-aaaaaa")); len(grants.Devices) != 2 {
		t.Errorf("granted: %+v", grants)
	}
}
