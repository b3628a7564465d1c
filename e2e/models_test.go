package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// onModel trains nothing; it does SPEED steps a second, by the node that it is on.
const onModel = `import bellows, os, time
step = 0
last = bellows.resume()
if last is not None:
    step = last.step
def write(path):
    with open(os.path.join(path, "state"), "w") as f:
        f.write(str(step))
while not bellows.should_stop(step):
    time.sleep(1 / SPEED[os.environ["BELLOWS_NODE"]])
    step += 1
    bellows.report(step)
bellows.save(step, write)
`

// shown is what jobs of a kind have shown of their speed on each model.
func (f *fleet) shown(kind string, speeds map[string]float64) {
	f.t.Helper()
	k := record.JobKind{At: time.Now(), Job: "before-aaaaaa", Jobs: 1}
	for model, rate := range speeds {
		k.Points = append(k.Points, record.SpeedPoint{Workers: 1, Nodes: 1, Model: model, Batch: 64, StepsPerSecond: rate, Low: rate, High: rate, Windows: 9})
	}
	out := f.store.Commit(f.t.Context(), record.Txn{ID: "shown-" + kind, Then: []record.Op{record.Put(record.JobKindKey(uint32(os.Getuid()), kind), k)}})
	if out.Result != record.Applied {
		f.t.Fatalf("kind %s: %+v", kind, out)
	}
}

// The job that is first has the faster model, until another comes that gains more by it: they change places,
// as what their kinds have shown on each model says. A cluster that ignores models leaves them where they are.
func TestTwoModelsAreUsedAsTheirCurvesSuggest(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 2, policy: "flowtime", interval: time.Second})
	f.startEtcd()
	f.shown("flat", map[string]float64{"v100": 4, "k80": 3})
	f.shown("steep", map[string]float64{"v100": 20, "k80": 2})
	f.startCoordinator(1)
	f.startAgent(1, "--simulate-model", "v100")
	f.startAgent(2, "--simulate-model", "k80")
	f.awaitMembers()
	submit := func(kind string, n1, n2 int) cluster.JobID {
		return f.submit(job{
			"name": kind, "kind": kind, "min": 1, "max": 2, "batch-size": 64, "steps": 1_000_000, "workdir": f.dir, "checkpoint-dir": f.dir + "/ckpt",
			"command": []string{python, f.script(kind+".py", fmt.Sprintf("SPEED = {'n1': %d, 'n2': %d}\n", n1, n2)+onModel)},
		})
	}
	runsOn := func(m *record.Mirror, id cluster.JobID, n cluster.NodeID) bool {
		v := m.Job(id)
		s := v.State.Value
		members := v.Generation(s.Generation).Plan.Value.World.Members
		return s.Phase == cluster.Running && len(members) == 1 && members[0].Node == n
	}
	flat := submit("flat", 4, 3)
	f.await("flat to run on the faster model", func(m *record.Mirror) bool { return runsOn(m, flat, "n1") })
	steep := submit("steep", 20, 2)
	f.await("them to change places", func(m *record.Mirror) bool { return runsOn(m, flat, "n2") && runsOn(m, steep, "n1") })
	a, b := f.show(flat), f.show(steep)
	if len(a.Members) != 1 || a.Members[0].Model != "k80" || len(b.Members) != 1 || b.Members[0].Model != "v100" {
		t.Errorf("flat has %+v, steep %+v", a.Members, b.Members)
	}
	// It may have waited in the queue until the other had stopped.
	if !strings.Contains(a.Reason, "on k80 instead of v100") {
		t.Errorf("flat has moved because %q", a.Reason)
	}
	if out, _, _ := f.bellows("nodes"); !strings.Contains(out, "MODEL") || !strings.Contains(out, "v100") {
		t.Errorf("nodes are of no models:\n%s", out)
	}
}
