package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// scene is two devices on which the test says who is.
type scene struct {
	mu      sync.Mutex
	on      map[cluster.DeviceID][]nvml.Process
	refuses string // why there is nothing to look with; empty = there is
	minors  map[cluster.DeviceID]uint32
}

func (s *scene) Survey(context.Context) (nvml.Survey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses != "" {
		return nvml.Survey{Problem: s.refuses, Refused: true}, nil
	}
	var out nvml.Survey
	for i := range 2 {
		id := cluster.DeviceID(fmt.Sprintf("SIM-n1-%d", i))
		r := nvml.Reading{Device: cluster.Device{ID: id, Health: cluster.Healthy}, MemoryUsedBytes: 1, Processes: slices.Clone(s.on[id])}
		if minor, told := s.minors[id]; told {
			r.Minor = &minor
		}
		out.Devices = append(out.Devices, r)
	}
	return out, nil
}

func (s *scene) Close() error { return nil }

// refuse makes the library refuse as a whole; for no reason, answer again.
func (s *scene) refuse(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = why
}

// put places processes on a device, instead of those that were there.
func (s *scene) put(device cluster.DeviceID, pids ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[device] = nil
	for _, pid := range pids {
		s.on[device] = append(s.on[device], nvml.Process{PID: pid, MemoryBytes: 1})
	}
}

// published waits until a device is published so.
func (f *fixture) published(device int, health cluster.Health, words string) {
	f.Helper()
	f.inventory(func(inv record.Inventory) bool {
		if len(inv.Devices) <= device {
			return false
		}
		d := inv.Devices[device]
		return d.Health == health && strings.Contains(d.Problem, words) && (words != "" || d.Problem == "")
	})
}

// inventory waits until what n1 has to give is published so.
func (f *fixture) inventory(want func(record.Inventory) bool) {
	f.Helper()
	f.awaitKV(record.InventoryKey("n1"), func(kv record.KV) bool {
		var inv record.Inventory
		if err := json.Unmarshal(kv.Value, &inv); err != nil {
			f.Fatal(err)
		}
		return want(inv)
	})
}

func TestStrangersKeepNewWorkAwayAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stranger := f.stranger()
	sc := &scene{on: map[cluster.DeviceID][]nvml.Process{}}
	sc.put("SIM-n1-0", stranger)
	s := f.settings("n1")
	s.Devices = sc
	f.agent(s)
	const who = "in use by sleep of "
	f.published(0, cluster.Unhealthy, who)
	f.published(1, cluster.Healthy, "")

	// A plan that was made before that was known is refused, and counts against no job or node.
	j := f.job("late", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.DeviceBusy || !strings.Contains(failed.Reason, who) {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)

	// Its own workers do no harm to a device, also those of workers; a stranger
	// beside them is told, and disturbs nothing.
	j = f.job("train", []string{"/bin/sh", "-c", "sleep 600 & wait"}, map[string]int{"n1": 1}, "n1")
	j.Members[0].Devices = []cluster.DeviceID{"SIM-n1-1"}
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0].PID
	sc.put("SIM-n1-1", worker, stranger)
	f.published(1, cluster.Healthy, who)
	f.problem(j, "device SIM-n1-1: in use by", who)
	listed := func() []api.DeviceProcess {
		nodes, err := api.NewClient(filepath.Join(s.Dir, "s")).Nodes(t.Context())
		if err != nil || len(nodes) != 1 || len(nodes[0].Devices) != 2 || nodes[0].Devices[1].Reading == nil {
			return nil
		}
		return nodes[0].Devices[1].Reading.Processes
	}
	f.until("the job's process and the stranger by name", func() bool {
		p := listed()
		return len(p) == 2 && p[0].Job == "train" && p[0].Command == "sh" && p[1].Job == "" && p[1].Command == "sleep"
	})
	sc.put("SIM-n1-1", worker)
	f.published(1, cluster.Healthy, "")

	// Who is gone is no stranger any more, unless the driver goes on listing him.
	sc.put("SIM-n1-0")
	f.published(0, cluster.Healthy, "")
	f.commit(record.Delete(record.PermitKey(j.Job, j.Generation)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	f.published(1, cluster.Unhealthy, "in use by sh of job train generation 1, which has ended")
	sc.put("SIM-n1-1")
	f.published(1, cluster.Healthy, "")
}

// A run that cannot be looked into says nothing of its own devices, and hides
// nothing that goes on on others.
func TestAnUnreadableRunLeavesOnlyItsDevicesUndecided(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sc := &scene{on: map[cluster.DeviceID][]nvml.Process{}}
	s := f.settings("n1")
	s.Devices = sc
	f.agent(s)
	j := f.job("train", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0].PID
	claims, err := filepath.Glob(filepath.Join(s.Dir, "r", "*", "shim.json"))
	if err != nil || len(claims) != 1 {
		t.Fatalf("run records %v, %v", claims, err)
	}
	claim, err := os.ReadFile(claims[0])
	if err != nil {
		t.Fatal(err)
	}
	f.replaceFile(claims[0], []byte("{"))
	sc.put("SIM-n1-0", worker)
	stranger := f.stranger()
	sc.put("SIM-n1-1", stranger)
	const who = "in use by sleep of "
	f.published(1, cluster.Unhealthy, who)
	f.published(0, cluster.Healthy, "") // its worker is not taken for a stranger
	sc.put("SIM-n1-1")
	f.published(1, cluster.Healthy, "")

	f.replaceFile(claims[0], claim)
	sc.put("SIM-n1-0", worker, stranger)
	f.published(0, cluster.Healthy, who)
}

// stranger is a process that belongs to no job.
func (f *fixture) stranger() (pid int) {
	f.Helper()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

// replaceFile never shows half a file.
func (f *fixture) replaceFile(path string, b []byte) {
	f.Helper()
	if err := errors.Join(os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path)); err != nil {
		f.Fatal(err)
	}
}
