package sim

import (
	"strings"
	"testing"
	"time"
)

// strange are rules that end a job that they have never run.
type strange struct{}

func (strange) Instant(s *State) { s.Ends[0] = s.Now + time.Second }
func (strange) Workers(int) int  { return 4 }

func TestRulesThatTheCoordinatorDidNotCarryOutAreAnError(t *testing.T) {
	_, err := Run(Config{Jobs: []Job{elastic("a", 0, time.Minute, 2)}, Nodes: 1, DevicesPerNode: 4, Rules: strange{}})
	if err == nil || !strings.Contains(err.Error(), `job "a" has 0 workers and the rules have decided 4`) {
		t.Errorf("%v", err)
	}
}

// slow are rules under which a job takes far longer than its work says, and changes its size meanwhile.
type slow struct{ workers int }

func (r *slow) Instant(s *State) {
	r.workers = 2
	if s.Now >= 10*time.Minute {
		r.workers = 4
	}
	if len(s.Ended) == 0 {
		s.Ends[0], s.Again = 20*time.Minute, 10*time.Minute
	}
}

func (r *slow) Workers(int) int { return r.workers }

func TestRulesCountWorkByThemselves(t *testing.T) {
	r, err := Run(Config{Jobs: []Job{elastic("a", 0, time.Minute, 4)}, Nodes: 1, DevicesPerNode: 4, Rules: &slow{}})
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Jobs[0]; o.End != 20*time.Minute || o.Rescales != 1 || r.Rejected != 0 {
		t.Errorf("%+v, %d answers rejected", o, r.Rejected)
	}
}
