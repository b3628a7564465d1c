package rundir

import (
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
)

// A job's name does not make its cgroup look like another run's.
func TestNamesOfGroupsTellTheRun(t *testing.T) {
	const dir = "/run/bellows/j-12345678-g1"
	own, other := Name(dir), Name("/run/bellows/k-12345678-g1")
	for name, want := range map[string]bool{
		"bellows-j-g1-" + own + "-4242":                       true,
		"bellows-j-1-" + own + "-abcdef.scope":                true,
		"bellows-with-dashes-g12-" + own + "-1":               true,
		"bellows-j-" + own + "-1-g1-" + other + "-7":          false,
		"bellows-j-g1-" + own:                                 false,
		"other-j-g1-" + own + "-4242":                         false,
		"bellows-j-" + own + "-g1-" + other + "-abcdef.scope": false,
		"bellows-" + own + "-4242":                            false,
		GroupName(run.Order{}, dir):                           true,
		ScopeName(run.Order{}, dir):                           true,
	} {
		if (RunNamed(name) == Name(dir)) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
