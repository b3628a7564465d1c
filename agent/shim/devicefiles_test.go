package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
)

// opens tries all files below ../dev, and some that every program needs, and says
// how each went. No driver answers for fake ones: those that may be opened are not there.
const opens = `
import errno, os
def attempt(what, f):
    try: os.close(f()); return what + " yes"
    except OSError as e: return what + " " + errno.errorcode[e.errno]
out = []
for name in sorted(os.listdir("../dev")):
    out.append(attempt(name, lambda: os.open("../dev/" + name, os.O_RDWR)))
for path in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/shm/bellows-%d" % os.getpid()):
    out.append(attempt(path.split("-")[0], lambda: os.open(path, os.O_RDWR | os.O_CREAT if "shm" in path else os.O_RDONLY)))
    if "shm" in path: os.unlink(path)
open("opened.tmp", "w").write("\n".join(out) + "\n")
os.rename("opened.tmp", "opened")
`

// gpus makes files of that name and number in the fixture's own directory.
func (f *fixture) gpus(files map[string][2]uint32) {
	f.t.Helper()
	agenttest.NeedsRoot(f.t)
	dir := filepath.Join(f.root, "dev")
	if err := os.Mkdir(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	for name, number := range files {
		path := filepath.Join(dir, name)
		kind := uint32(unix.S_IFCHR)
		if name == "disk" {
			kind = unix.S_IFBLK
		}
		if err := unix.Mknod(path, kind|0o666, int(unix.Mkdev(number[0], number[1]))); err != nil {
			f.t.Skipf("device files can only be told apart where they can be made: %v", err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			f.t.Fatal(err)
		}
		file, err := os.Open(path)
		if err == nil {
			_ = file.Close()
		} else if !strings.Contains(err.Error(), "no such device") {
			f.t.Skipf("device files can only be told apart where root may open them: %v", err)
		}
	}
}

// The driver's files, and one of the system's that answers.
var fakes = map[string][2]uint32{
	"nvidia0": {195, 0}, "nvidia1": {195, 1}, "nvidia2": {195, 2}, "nvidia253": {195, 253},
	"nvidia-modeset": {195, 254}, "nvidiactl": {195, 255}, "nvidia-uvm": {509, 0}, "other": {194, 0}, "full": {1, 7}, "disk": {195, 0},
}

const opened = `disk ENXIO
full yes
nvidia-modeset ENXIO
nvidia-uvm ENXIO
nvidia0 EPERM
nvidia1 ENXIO
nvidia2 EPERM
nvidia253 EPERM
nvidiactl ENXIO
other ENXIO
/dev/null yes
/dev/zero yes
/dev/urandom yes
/dev/shm/bellows yes
`

// A worker opens its own devices, what all share and what every program needs, and
// no other device of the driver's, also none that is not there yet.
func TestWorkersOpenTheirOwnDevicesOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, how string
		owner     cluster.Owner
		limits    cluster.Limits
	}{
		"cgroup v2":             {kind: run.Cgroup2, how: record.DeviceFilter, owner: cluster.Owner{UID: 1, GID: 1, User: "daemon"}},
		"cgroup v2, limits":     {kind: run.Cgroup2, how: record.DeviceFilter, owner: cluster.Owner{UID: 1, GID: 1, User: "daemon"}, limits: cluster.Limits{CPUs: 1, MemoryBytes: 1 << 30}},
		"cgroup v2, root's job": {kind: run.Cgroup2, how: record.DeviceFilter, owner: cluster.Owner{User: "root"}},
		"cgroup v1":             {kind: run.Cgroup1, how: record.DeviceController, owner: cluster.Owner{UID: 1, GID: 1, User: "daemon"}},
		"cgroup v1, limits":     {kind: run.Cgroup1, how: record.DeviceController, owner: cluster.Owner{UID: 1, GID: 1, User: "daemon"}, limits: cluster.Limits{CPUs: 1, MemoryBytes: 1 << 30}},
		"weak":                  {kind: run.Weak, how: record.DeviceController, owner: cluster.Owner{UID: 1, GID: 1, User: "daemon"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needsKind(t, c.kind)
			if own, err := os.ReadFile("/proc/self/cgroup"); (err != nil || !strings.Contains(string(own), "devices")) && c.how == record.DeviceController {
				t.Skip("there is no such controller here")
			}
			f := newFixture(t, 1, "").python(opens).giveTo(c.owner.UID, c.owner.GID)
			f.gpus(fakes)
			f.order.Containment, f.order.Owner, f.order.Limits = c.kind, c.owner, c.limits
			f.order.DeviceFiles = &run.DeviceFiles{Major: 195, Last: 253, Granted: []uint32{1}}
			r := f.start().started()
			if r.DeviceFiles != c.how {
				t.Errorf("device files: %q", r.DeviceFiles)
			}
			if got := f.awaitFile("opened"); got != opened {
				t.Errorf("got\n%swant\n%s", got, opened)
			}
			f.stopped()
			f.retire()
			var rec rundir.Record
			if err := durable.ReadJSON(filepath.Join(f.dir, rundir.ShimFile), &rec); err != nil {
				t.Fatal(err)
			}
			for _, dir := range rec.Limits {
				if _, err := os.Stat(dir); err == nil {
					t.Errorf("%s is left", dir)
				}
			}
		})
	}
}

// Before its plan a run has no device: a command that waits opens none, not even those
// that the workers will have, and what runs ahead does not come to it. The workers open their own.
func TestNoDeviceIsOpenedBeforeThePlan(t *testing.T) {
	t.Parallel()
	for _, kind := range append(kinds(), run.Weak) {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waits %v", kind, waits), func(t *testing.T) {
				t.Parallel()
				if kind != run.Weak {
					needsKind(t, kind)
				}
				f := newFixture(t, 1, "").giveTo(1, 1)
				if waits {
					f.repeats()
				}
				f.gpus(fakes)
				f.order.Containment, f.order.Owner = kind, cluster.Owner{UID: 1, GID: 1, User: "daemon"}
				f.order.DeviceFiles = &run.DeviceFiles{Major: 195, Last: 253, Granted: []uint32{1}}
				f.pyScript("import os\nrank = os.environ['RANK']\n" + opens)
				if waits {
					f.pyScript(strings.ReplaceAll(opens, "opened", "early") + "fd = int(os.environ['BELLOWS_READY_FD'])\nos.write(fd, b'r')\nos.read(fd, 1 << 16)\n" + opens)
				}
				f.order.Command[0] = "/usr/bin/python3" // which any user may execute
				plan := f.prepares(func(p *run.Prepare) { p.Waits = waits })
				f.order.DeviceFiles = &run.DeviceFiles{Major: 195, Last: 253, Granted: []uint32{}}
				if p := f.startPrepared().Prepared; !p.Ready {
					t.Fatalf("prepared %+v", p)
				}
				if waits {
					if got, want := f.awaitFile("early"), strings.ReplaceAll(opened, "nvidia1 ENXIO", "nvidia1 EPERM"); got != want {
						t.Errorf("before the plan: got\n%swant\n%s", got, want)
					}
				}
				f.startWarm(plan)
				if got := f.awaitFile("opened"); got != opened {
					t.Errorf("the worker: got\n%swant\n%s", got, opened)
				}
				f.stopped()
				f.retire()
				if left := f.limitsLeft(); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			})
		}
	}
}

// A job runs where devices cannot be kept from it, and its report says why.
func TestDevicesThatCannotBeKeptAreSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "exit 0")
	f.order.DeviceFiles = &run.DeviceFiles{Unknown: "the driver\x1b does not tell"}
	if r := f.start().stopped(); !r.Stopped.Finished || r.DeviceFiles != "not enforced (the driver does not tell)" {
		t.Errorf("finished %+v, device files %q", r.Stopped, r.DeviceFiles)
	}
	f.retire()
	g := newFixture(t, 1, "exit 0")
	g.order.DeviceFiles = &run.DeviceFiles{Major: 195, Last: 253}
	if r := g.startUnprivileged().stopped(); !r.Stopped.Finished || !strings.HasPrefix(r.DeviceFiles, "not enforced (") ||
		!strings.Contains(r.DeviceFiles, "run the agent as root") || strings.Contains(r.DeviceFiles, string(g.order.World.Job)) {
		t.Errorf("finished %+v, device files %q", r.Stopped, r.DeviceFiles)
	}
	g.retire()
	h := newFixture(t, 1, "exit 0")
	if r := h.start().stopped(); r.DeviceFiles != "" {
		t.Errorf("without devices: %q", r.DeviceFiles)
	}
	h.retire()
}
