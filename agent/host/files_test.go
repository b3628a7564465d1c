package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

// A job of a real shim opens the file of its own device and not another's.
func TestAJobOpensItsOwnDevice(t *testing.T) {
	t.Parallel()
	how := contain.TryDevices("")
	if record.DevicesOpen(how) {
		t.Skipf("devices cannot be kept from jobs here: %s", how)
	}
	f := newFixture(t)
	for name, minor := range map[string]uint32{"gpu0": 40, "gpu1": 41} {
		path := filepath.Join(f.dir, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(nvml.Major, minor))); err != nil {
			t.Skipf("device files cannot be made here: %v", err)
		}
		if file, err := os.Open(path); err == nil || !strings.Contains(err.Error(), "no such device") {
			_ = file.Close()
			t.Skipf("device files of that number are not free here: %v", err)
		}
	}
	s := f.settings("n1")
	s.Devices = &scene{minors: map[cluster.DeviceID]uint32{"SIM-n1-0": 40, "SIM-n1-1": 41}}
	f.agent(s)
	f.inventory(func(i record.Inventory) bool { return i.DeviceFiles == how })
	j := f.job("files", []string{"/bin/sh", "-c", "export LC_ALL=C; cat gpu0 2> said; cat gpu1 2>> said; exit 0"}, map[string]int{"n1": 1}, "n1")
	j.Members[0].Devices = []cluster.DeviceID{"SIM-n1-1"}
	f.start(j)
	if started := ack[record.Started](f, j, "n1", record.AckStarted); started.DeviceFiles != how {
		t.Errorf("started with device files %q, want %q", started.DeviceFiles, how)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	b, err := os.ReadFile(filepath.Join(f.dir, "said"))
	if got := string(b); err != nil || !strings.Contains(got, "gpu0: Operation not permitted") || !strings.Contains(got, "gpu1: No such device") {
		t.Errorf("got %q, %v", got, err)
	}
}
