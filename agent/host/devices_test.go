package host

import (
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// A library that answers that it cannot be used, as after an upgrade of the
// driver's package, takes nothing from what runs: not even a fresh agent, which
// has seen no device itself, says that its runs' devices are gone.
func TestALibraryThatRefusesTakesNothingFromWhatRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sc := &scene{on: map[cluster.DeviceID][]nvml.Process{}}
	s := f.settings("n1")
	s.Devices = sc
	stop := f.agent(s)
	j := f.job("train", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	const why = "reload the driver"
	sc.refuse(why)
	f.published(0, cluster.Healthy, why)
	f.published(1, cluster.Unhealthy, why)
	stop()
	f.agent(s)
	f.inventory(func(inv record.Inventory) bool {
		return inv.Problem == why && len(inv.Devices) == 1 && inv.Devices[0].ID == "SIM-n1-0" && inv.Devices[0].Health == cluster.Healthy
	})
	sc.refuse("")
	f.published(0, cluster.Healthy, "")
	f.published(1, cluster.Healthy, "")
	f.commit(record.Delete(record.PermitKey(j.Job, j.Generation)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
}
