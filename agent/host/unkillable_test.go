package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// freeze makes a process unkillable until thaw is called: SIGKILL stays pending,
// as for one that hangs in a driver.
func (f *fixture) freeze(pid int) (thaw func()) {
	f.Helper()
	cell := filepath.Join("/sys/fs/cgroup/freezer", filepath.Base(f.dir)+"-"+strconv.Itoa(pid))
	if err := os.Mkdir(cell, 0o755); err != nil {
		f.Skipf("a process that SIGKILL does not end can only be made with a cgroup v1 freezer, and root: %v", err)
	}
	set := func(file, text string) {
		if err := os.WriteFile(filepath.Join(cell, file), []byte(text), 0); err != nil {
			f.Error(err)
		}
	}
	thaw = func() { set("freezer.state", "THAWED") }
	f.Cleanup(func() {
		thaw()
		f.until("an empty freezer", func() bool {
			err := os.Remove(cell)
			return err == nil || errors.Is(err, os.ErrNotExist)
		})
	})
	set("cgroup.procs", strconv.Itoa(pid))
	set("freezer.state", "FROZEN")
	return thaw
}

// unfit reports whether a device of n1 is recorded as such, and since which revision.
func (f *fixture) unfit(device cluster.DeviceID) (since int64, is bool) {
	f.Helper()
	kv := f.awaitKV(record.InventoryKey("n1"), func(record.KV) bool { return true })
	var inventory record.Inventory
	if err := json.Unmarshal(kv.Value, &inventory); err != nil {
		f.Fatal(err)
	}
	return kv.ModRevision, withheld(inventory, device)
}

// A worker that the kernel does not let go of holds its device, and not its job:
// the job goes on, also on the same node, and people are told.
func TestAnUnkillableWorkerHoldsItsDeviceOnly(t *testing.T) {
	t.Parallel()
	for name, shimDies := range map[string]bool{"shim lives": false, "shim dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.settings("n1")
			stop := f.agent(s)
			j := f.job("stuck", sleeper(), map[string]int{"n1": 1}, "n1")
			f.start(j)
			worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
			thaw := f.freeze(worker.PID)
			if shimDies {
				runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
				if err != nil || len(runs) != 1 {
					t.Fatalf("runs: %v, %v", runs, err)
				}
				f.killShim(runs[0])
			}
			f.commit(record.Delete(record.PermitKey(j.Job, 1)))
			kv := f.awaitKV(record.AckKey("n1", j.Job, 1, record.AckStopped), func(record.KV) bool { return true })
			var stopped record.Stopped
			if err := json.Unmarshal(kv.Value, &stopped); err != nil || !slices.Equal(stopped.Unkillable, []int{worker.PID}) || stopped.Finished {
				t.Errorf("stopped %+v, %v; the worker is %d", stopped, err, worker.PID)
			}
			if since, unfit := f.unfit("SIM-n1-0"); !unfit || since >= kv.CreateRevision {
				t.Errorf("unfit: %t since revision %d; stopped was said at %d", unfit, since, kv.CreateRevision)
			}
			if !lives(worker) {
				t.Fatal("the worker is gone already: this tests nothing")
			}
			f.until("a word to people", func() bool {
				p := await[record.Progress](f, record.ProgressKey("n1")).Problems[j.Job].Text
				return strings.Contains(p, "survive SIGKILL") && strings.Contains(p, "does not wait for them")
			})

			// The next agent does not take the device for fit before it has looked.
			stop()
			log := &agenttest.Log{}
			f.agentTo(s, log)
			known := "adopted a run"
			if shimDies {
				known = "cannot sweep a run yet"
			}
			f.until("what the next agent finds", func() bool {
				if _, unfit := f.unfit("SIM-n1-0"); !unfit {
					t.Fatal("the device of an unkillable worker is fit after a restart of the agent")
				}
				return strings.Contains(log.String(), known)
			})
			if _, unfit := f.unfit("SIM-n1-0"); !unfit || !lives(worker) {
				t.Fatalf("unfit: %t; the worker lives: %t", unfit, lives(worker))
			}

			next := *j
			next.Generation = 2
			next.Members = []cluster.Member{{Node: "n1", AliveRev: f.alive("n1"), Devices: []cluster.DeviceID{"SIM-n1-1"}}}
			f.start(&next)
			ack[record.Started](f, &next, "n1", record.AckStarted)
			if !lives(worker) {
				t.Fatal("the worker is gone already: this tests nothing")
			}
			f.commit(record.Delete(record.PermitKey(next.Job, 2)))
			ack[record.Stopped](f, &next, "n1", record.AckStopped)

			thaw()
			f.until("the worker's end", func() bool { return !lives(worker) })
			f.until("its device to be fit again", func() bool { _, unfit := f.unfit("SIM-n1-0"); return !unfit })
			f.until("an empty run directory", func() bool { return f.empty(s) })
		})
	}
}
