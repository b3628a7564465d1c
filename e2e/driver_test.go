package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// driver is a library that stands in for NVIDIA's, of which a test says what it does.
type driver struct {
	f       *fleet
	library string
	now     string // the file with what is the matter
}

func (f *fleet) driver(flags ...string) *driver {
	f.t.Helper()
	d := &driver{f: f, library: filepath.Join(f.dir, "libnvidia-ml.so.1"), now: filepath.Join(f.dir, "now")}
	f.run(exec.Command("cc", append([]string{"-shared", "-fPIC", "-o", d.library, filepath.Join("..", "nvml", "testdata", "fake.c")}, flags...)...))
	return d
}

// says sets what is the matter; nothing = all is well.
func (d *driver) says(what ...string) {
	d.f.t.Helper()
	if err := os.WriteFile(d.now+".new", []byte(strings.Join(what, "\n")), 0o600); err != nil {
		d.f.t.Fatal(err)
	}
	if err := os.Rename(d.now+".new", d.now); err != nil {
		d.f.t.Fatal(err)
	}
}

// agent starts node i's agent on the driver; env says what devices it has.
func (d *driver) agent(i int, env ...string) {
	d.f.t.Helper()
	args := append(env, "FAKE_NVML_NOW="+d.now, binary, "agent", "--node", string(node(i)), "--etcd", d.f.endpoint, "--bind", d.f.addr(i),
		"--socket", d.f.socket(i), "--data-dir", d.f.nodeDir(i), "--lock-dir", filepath.Join(d.f.dir, "locks"), "--nvml-library", d.library)
	d.f.startProgram("agent-"+string(node(i)), "/usr/bin/env", args...)
}

// awaitDevices waits until n1's inventory is as wanted.
func (d *driver) awaitDevices(what string, want func(record.Inventory) bool) {
	d.f.t.Helper()
	d.f.await(what, func(m *record.Mirror) bool { return want(m.Node("n1").Inventory.Value) })
}

// healthy are an inventory's devices that may be given out.
func healthy(inv record.Inventory) (list []cluster.DeviceID) {
	for _, dev := range inv.Devices {
		if dev.Health == cluster.Healthy {
			list = append(list, dev.ID)
		}
	}
	return list
}

func only(ids ...cluster.DeviceID) func(record.Inventory) bool {
	return func(inv record.Inventory) bool { return slices.Equal(healthy(inv), ids) }
}

// nodesSay waits until bellows nodes says it.
func (u *people) nodesSay(words ...string) {
	u.t.Helper()
	u.eventually("nodes to say "+strings.Join(words, ", "), func() bool {
		out, _, _ := u.bellows("nodes")
		return containsAll(out, words...)
	})
}

// Devices come and go under a job that runs: it is moved off those that are cut
// up or lost, without losing a step, and gets those that are added or are back.
func TestDevicesChangeUnderAJob(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 1, policy: "share", interval: 300 * time.Millisecond})
	d := f.driver()
	lost := filepath.Join(f.dir, "lost")
	f.startEtcd()
	f.startCoordinator(1)
	d.agent(1, "FAKE_NVML_LOST="+lost)
	f.awaitMembers()
	id := f.submit(f.sdkJob("a", 1, 2, 1<<30, 0.05, "--save-every", "20"))
	g := f.awaitRunning(id, 2, 0)
	f.awaitStep("a", 5, 2)
	runsOn := func(want ...cluster.DeviceID) {
		t.Helper()
		g = f.awaitRunning(id, len(want), g)
		var on []cluster.DeviceID
		for _, m := range f.mirror().Job(id).Generation(g).Plan.Value.World.Members {
			on = append(on, m.Devices...)
		}
		if slices.Sort(on); !slices.Equal(on, want) {
			t.Errorf("generation %d runs on %v, want %v", g, on, want)
		}
		f.awaitStep("a", f.lastStep("a")+5, len(want))
	}

	// An operator cuts the first device into MIG slices.
	d.says("mig-0")
	runsOn("GPU-fake-1")
	f.nodesSay("GPU-fake-0: MIG mode is on and Bellows gives out whole devices", "nvidia-smi -i 0 -mig 0")
	if s := f.show(id); !slices.ContainsFunc(s.Rescales, func(r api.Rescale) bool { return strings.Contains(r.Why, "GPU-fake-0") }) {
		t.Errorf("show does not say which device it had to leave: %+v", s.Rescales)
	}
	d.says()
	runsOn("GPU-fake-0", "GPU-fake-1")
	f.lostNothing(id)

	// The second falls off the bus.
	if err := os.WriteFile(lost, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runsOn("GPU-fake-0")
	f.nodesSay("GPU-fake-1: fell off the bus: see dmesg for its Xid; reboot the node")
	f.says(0, []string{"0000:08:00.0"}, "nodes", "--devices") // where it is
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	runsOn("GPU-fake-0", "GPU-fake-1")

	// A third one is plugged in, for another job; then it is taken out again.
	d.says("third")
	d.awaitDevices("a third device", only("GPU-fake-0", "GPU-fake-1", "GPU-fake-2"))
	other := f.submit(f.sdkJob("b", 1, 1, 1<<30, 0.05, "--save-every", "20"))
	f.awaitRunning(other, 1, 0)
	f.awaitStep("b", 5, 1)
	if on := f.mirror().Job(other).Generation(1).Plan.Value.World.Members[0].Devices; !slices.Equal(on, []cluster.DeviceID{"GPU-fake-2"}) {
		t.Errorf("b runs on %v", on)
	}
	d.says()
	f.await("what ran on the third device to go elsewhere", func(m *record.Mirror) bool {
		for _, job := range []cluster.JobID{id, other} {
			v := m.Job(job)
			members := v.Generation(v.State.Value.Generation).Plan.Value.World.Members
			if v.State.Value.Phase != cluster.Running || len(members) != 1 || len(members[0].Devices) != 1 || members[0].Devices[0] == "GPU-fake-2" {
				return false
			}
		}
		return true
	})
	for _, job := range []cluster.JobID{id, other} {
		f.lostNothing(job)
		if s := f.mirror().Job(job).State.Value; s.Restarts != 0 {
			t.Errorf("%s was charged: %+v", job, s)
		}
		f.mustBellows("stop", "-w", string(job))
		f.nothingLeft(job)
	}
	batches(t, f.trace("a")) // no step is missing
}

// A driver that hangs, is upgraded under a job, or goes away takes nothing from
// what runs, also where the agent is restarted meanwhile; new work waits for it.
func TestADriverThatFailsTakesNothingFromWhatRuns(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 1, policy: "share", interval: 300 * time.Millisecond})
	d := f.driver()
	f.startEtcd()
	f.startCoordinator(1)
	d.agent(1)
	f.awaitMembers()
	id := f.submit(f.sdkJob("a", 1, 1, 1<<30, 0.05, "--save-every", "20"))
	f.awaitRunning(id, 1, 0)
	f.awaitStep("a", 5, 1)
	on := f.mirror().Job(id).Generation(1).Plan.Value.World.Members[0].Devices[0]
	workers := f.started(id)
	untouched := func(what string) {
		t.Helper()
		f.awaitStep("a", f.lastStep("a")+20, 1)
		s := f.mirror().Job(id).State.Value
		if s.Phase != cluster.Running || s.Generation != 1 || !slices.Equal(f.started(id), workers) {
			t.Fatalf("%s: %+v, workers %v, were %v", what, s, f.started(id), workers)
		}
	}

	// A library that hangs: the child is replaced, and hangs again. Lease, watchdog
	// and job do not wait for it.
	d.says("hang-count", "hang-init")
	f.nodesSay("the NVIDIA driver did not answer within ")
	alive := f.mirror().Node("n1").Alive.Create
	untouched("while the library hangs")
	f.says(0, []string{"a"}, "ps") // and the agent answers
	if now := f.mirror().Node("n1").Alive.Create; now != alive {
		t.Errorf("a library that hangs has cost the node its lease: life %d, was %d", now, alive)
	}
	d.says()
	d.awaitDevices("both devices again", only("GPU-fake-0", "GPU-fake-1"))

	// Its package is upgraded: a fresh child finds another version than the kernel's.
	for _, c := range []struct{ now, says string }{
		{"mismatch", "are of different versions, as after an upgrade: reload the driver or reboot"},
		{"unloaded", "the NVIDIA driver is installed but not loaded: modprobe nvidia"},
	} {
		d.says(c.now)
		f.kill("agent-n1")
		d.agent(1)
		f.nodesSay(c.says)
		d.awaitDevices("the job's device alone", only(on))
		untouched(c.now)
		other := f.submit(f.sdkJob("b", 1, 1, 1<<30, 0.05))
		f.awaitShown(other, "that it waits for a device", func(s api.JobStatus) bool { return s.Phase == cluster.Queued && s.Reason != "" })
		untouched(c.now + ", with another job waiting")
		d.says()
		f.awaitRunning(other, 1, 0)
		f.mustBellows("stop", "-w", "b")
	}

	// Unloaded from under the child that looks: what is idle is gone at once.
	d.says("unloaded")
	f.nodesSay("the NVIDIA driver is installed but not loaded: modprobe nvidia")
	d.awaitDevices("the job's device alone", only(on))
	untouched("unloaded under the child")
	if err := os.Remove(d.library); err != nil {
		t.Fatal(err)
	}
	f.nodesSay("no NVIDIA driver here: libnvidia-ml.so.1 is not found")
	untouched("without a library")
	f.mustBellows("stop", "-w", "a")
	f.nothingLeft(id)
	d.awaitDevices("no device", only())
}

// A node without a usable driver is in the cluster, has no devices, and says why;
// a job that waits for it runs once there is one.
func TestANodeWithoutADriver(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 1, policy: "share", interval: 300 * time.Millisecond})
	d := f.driver("-DOLD")
	f.startEtcd()
	f.startCoordinator(1)
	d.agent(1)
	f.awaitMembers()
	f.nodesSay("the NVIDIA library is too old for this bellows", "nvmlDeviceGetCount", "install a newer driver")
	if inv := f.mirror().Node("n1").Inventory.Value; len(inv.Devices) != 0 {
		t.Errorf("devices of a library that cannot be asked: %+v", inv)
	}
	id := f.submit(f.sdkJob("a", 1, 2, 1<<30, 0.05))
	f.awaitShown(id, "what it waits for", func(s api.JobStatus) bool {
		return s.Phase == cluster.Queued && strings.Contains(s.Reason, "n1: ask the NVIDIA driver: the NVIDIA library is too old")
	})
	if err := os.Remove(d.library); err != nil {
		t.Fatal(err)
	}
	f.nodesSay("no NVIDIA driver here: libnvidia-ml.so.1 is not found; install the driver, or start the agent with --simulate-devices")
	f.driver() // a newer one is installed
	f.awaitRunning(id, 2, 0)
	f.mustBellows("stop", "-w", "a")
	f.nothingLeft(id)
}
