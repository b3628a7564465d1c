package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Under jahani a node with a price stays idle while what waits costs less than it, and says
// so; a job whose lateness costs more has it run.
func TestADearNodeRunsForThoseInAHurry(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 2, devices: 1, policy: "jahani", interval: 2 * time.Second})
	f.startEtcd()
	f.startCoordinator(1)
	f.startAgent(1)
	f.startAgent(2, "--price-per-hour", "500")
	f.awaitMembers()

	const stepSeconds = 0.02
	submit := func(name string, hours, priority int) cluster.JobID { // as its steps take, so that measuring them changes nothing
		j := f.sdkJob(name, 1, 1, int(float64(hours)*3600/stepSeconds), stepSeconds)
		j["eta"], j["priority"] = fmt.Sprintf("%dh", hours), priority
		return f.submit(j)
	}
	runsOn := func(id cluster.JobID, node cluster.NodeID) {
		t.Helper()
		f.await(string(id)+" to run on "+string(node), func(m *record.Mirror) bool {
			v := m.Job(id)
			world := v.Generation(v.State.Value.Generation).Plan.Value.World
			return v.State.Value.Phase == cluster.Running && len(world.Members) == 1 && world.Members[0].Node == node
		})
	}
	first := submit("first", 1000, 0)
	runsOn(first, "n1")
	patient := submit("patient", 1000, 0)
	f.awaitShown(patient, "why it waits beside an idle node", func(s api.JobStatus) bool {
		return s.Phase == cluster.Queued && strings.Contains(s.Reason, "1 device is idle, on nodes whose price (500.00 an hour)")
	})
	hurried := submit("hurried", 30, 100)
	runsOn(hurried, "n2")
	f.await("why it runs there", func(m *record.Mirror) bool {
		return slices.ContainsFunc(m.Decision.Value.Moves, func(d record.Move) bool { return d.Job == hurried && strings.Contains(d.Why, "n2, 500.00 an hour") })
	})
	runsOn(first, "n1")

	out, errs, status := f.patiently("nodes", "-o", "json")
	var nodes []struct {
		ID    string  `json:"id"`
		Price float64 `json:"price_per_hour"`
	}
	if err := json.Unmarshal([]byte(out), &nodes); err != nil || status != 0 || len(nodes) != 2 || nodes[0].Price != 0 || nodes[1].Price != 500 {
		t.Errorf("nodes: %v, %d, %s%s", err, status, out, errs)
	}
	for _, id := range []cluster.JobID{hurried, patient, first} {
		f.stop(id)
	}
}
