package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// silentRange has a batch that ranges, and tells nothing of what a larger one is worth.
const silentRange = `import bellows, time
last = bellows.resume()
step = 0 if last is None else last.step
print("with", bellows.world_size(), "workers a batch of", bellows.batch_size(), flush=True)
def write(path):
    with open(path + "/state", "w") as f:
        f.write(str(step))
while not bellows.should_stop(step):
    time.sleep(0.2)
    step += 1
    bellows.report(step)
bellows.save(step, write)
`

// Under saxena a batch range needs no noise scale: once its speed is known, a job has the batch with
// which it does most samples. No generation has a batch out of the range.
func TestSaxenaUsesABatchRange(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 4, policy: "saxena", interval: time.Second})
	id := f.submit(job{
		"name": "ranges", "min": 4, "max": 4, "batch-size": "64:1000", "micro-batch": 1000, "workdir": f.dir, "checkpoint-dir": f.dir + "/ckpt",
		"command": []string{python, f.script("ranges.py", silentRange)},
	})
	m := f.await("the batch to grow", func(m *record.Mirror) bool {
		return m.Job(id).State.Value.Phase == cluster.Running && batchWorld(m, id).BatchSize > 64
	})
	f.awaitLogs(id, "with 4 workers a batch of 64\n")
	newest := m.Job(id).State.Value.Generation
	f.awaitReports(id, newest)
	m = f.mirror()
	seen := 0
	for g := cluster.Generation(1); g <= m.Job(id).State.Value.Generation; g++ {
		if b := m.Job(id).Generation(g).Plan.Value.World.BatchSize; b > 0 {
			seen++
			if b < 64 || b > 1000 || b%4 != 0 {
				t.Errorf("generation %d has a batch of %d", g, b)
			}
		}
	}
	if seen == 0 {
		t.Error("no plan was looked at")
	}
}

// telling tells a loss that falls, and stays where it is once a file FLAT is there. Each rank writes down which
// samples of its first step it takes.
const telling = `import bellows, json, math, os, time
last = bellows.resume()
step = 0 if last is None else last.step
taken = "%s.%d-of-%d" % (FLAT, bellows.rank(), bellows.world_size())
with open(taken + ".new", "w") as f:
    json.dump([step] + bellows.indices(step, 1 << 20), f)
os.replace(taken + ".new", taken)
def write(path):
    with open(path + "/state", "w") as f:
        f.write(str(step))
while not bellows.should_stop(step):
    time.sleep(0.03)
    step += 1
    bellows.report(step, loss=0.5 if os.path.exists(FLAT) else 0.6 + 2 * math.exp(-step / 1000))
bellows.save(step, write)
`

func (s *scripts) telling(name string) job {
	flat := filepath.Join(s.dir, name+".flat")
	return job{
		"name": name, "world-sizes": []int{1, 2, 3, 4}, "batch-size": 512, "uneven-batch": true, "workdir": s.dir, "checkpoint-dir": s.dir + "/ckpt",
		"command": []string{python, s.script(name+".py", "FLAT = "+quoted(flat)+"\n"+telling)},
	}
}

// sharesOf is how many samples each rank of a world of the size took in its first step; none of them two did.
func (f *fleet) sharesOf(name string, size int) (shares []int) {
	f.t.Helper()
	seen, step := map[int]bool{}, -1
	for rank := range size {
		path := filepath.Join(f.dir, fmt.Sprintf("%s.flat.%d-of-%d", name, rank, size))
		f.await("the first step of "+path, func(*record.Mirror) bool {
			_, err := os.Stat(path)
			return err == nil
		})
		text, err := os.ReadFile(path)
		var told []int
		if err == nil {
			err = json.Unmarshal(text, &told)
		}
		if err != nil || len(told) < 2 || rank > 0 && told[0] != step {
			f.t.Fatalf("rank %d of %s: %v, %.60s", rank, name, err, text)
		}
		step = told[0]
		for _, i := range told[1:] {
			if seen[i] {
				f.t.Errorf("sample %d is taken by two ranks", i)
			}
			seen[i] = true
		}
		shares = append(shares, len(told)-1)
	}
	return shares
}

func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `\'`) + "'" }

// Wei and Shudo's two jobs on four devices: the older has three while it converges. When its loss
// does not fall any more, its workers move to the young one.
func TestLossesMoveWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 4, policy: "convergence", interval: 2 * time.Second})
	old := f.submit(f.telling("old"))
	f.awaitRunning(old, 4, 0)
	f.await("windows of the old job's losses", func(m *record.Mirror) bool { return len(m.Job(old).Speed.Value.Losses) >= 2 })
	young := f.submit(f.telling("young"))
	f.awaitRunning(old, 3, 0)
	f.awaitRunning(young, 1, 0)
	shares := f.sharesOf("old", 3)
	if slices.Sort(shares); !slices.Equal(shares, []int{170, 171, 171}) {
		t.Errorf("three workers take %v of 512 samples", shares)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "old.flat"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.awaitRunning(old, 1, 0)
	f.awaitRunning(young, 3, 0)
	if why := f.mirror().Job(old).State.Value.Reason; !strings.Contains(why.String(), "its loss") {
		t.Errorf("the old job is told %q", why)
	}
}
