package sweep

import (
	"os"
	"testing"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
)

// What is left is not taken for all that is left where not all could be looked at.
func TestASweepThatDoesNotSeeAllTakesNothingForEnded(t *testing.T) {
	t.Parallel()
	self, err := proc.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		group  picture
		fault  error
		faults error
		want   bool
	}{
		"all seen":                     {want: true},
		"a kill that did not work":     {fault: os.ErrPermission},
		"a record's group not mounted": {faults: os.ErrPermission},
		"a group that cannot be seen":  {group: picture{Err: os.ErrPermission}},
		"a group that shows no pid":    {group: picture{Populated: true}},
		"a group with what is left":    {group: picture{Pids: []int{self.PID}, Populated: true}, want: true},
		"a group with another":         {group: picture{Pids: []int{os.Getppid()}, Populated: true}},
	} {
		s := &sweeper{dir: t.TempDir(), contained: true, faults: c.faults, groups: []contain.Group{c.group}}
		if s.sawAll([]proc.Stat{self}, c.fault) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// picture is a group as it is seen.
type picture struct {
	contain.Group
	Pids      []int
	Populated bool
	Err       error
}

func (p picture) Look() (pids []int, populated bool, err error) { return p.Pids, p.Populated, p.Err }
