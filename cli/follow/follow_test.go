package follow

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
)

// full is a file on a disk that is full until there is room for it again.
type full struct{ err error }

func (f *full) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return len(p), nil
}

func TestLinesThatCannotBeWrittenAreTold(t *testing.T) {
	var msg strings.Builder
	out := &full{err: syscall.ENOSPC}
	f := &follower{job: "train-1", out: out, msg: &msg, story: render.Story{Zone: time.UTC}}
	f.show(api.LogLine{Text: "one"})
	f.show(api.LogLine{Text: "two"})
	out.err = nil
	f.show(api.LogLine{Text: "three"})
	if err := f.end(api.JobStatus{Phase: cluster.Succeeded}); err != nil {
		t.Errorf("the job's own exit status is that of run: %v", err)
	}
	said := msg.String()
	if strings.Count(said, "no space left on device: lines are missing here; bellows logs train-1 has them") != 1 ||
		!strings.Contains(said, "2 lines could not be written here: bellows logs train-1\n") {
		t.Errorf("said:\n%s", said)
	}
}

func TestLinesThatAreWrittenAreNotTold(t *testing.T) {
	var msg strings.Builder
	f := &follower{job: "train-1", out: &full{}, msg: &msg, story: render.Story{Zone: time.UTC}}
	f.show(api.LogLine{Text: "one"})
	if err := f.end(api.JobStatus{Phase: cluster.Succeeded}); err != nil || strings.Contains(msg.String(), "lines") {
		t.Errorf("%v, said:\n%s", err, msg.String())
	}
}
