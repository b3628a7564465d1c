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
