package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Two devices of a library that stands in for NVIDIA's, and real processes on
// them: what is read is shown, a stranger keeps work away until it is gone, and a
// job that fits beside it runs meanwhile.
func TestDevicesAreReadAndStrangersKeepWorkAway(t *testing.T) {
	t.Parallel()
	f := emptyFleet(t, config{nodes: 1, interval: 300 * time.Millisecond})
	library, guests := filepath.Join(f.dir, "libnvidia-ml.so.1"), filepath.Join(f.dir, "guests")
	f.run(exec.Command("cc", "-shared", "-fPIC", "-o", library, filepath.Join("..", "nvml", "testdata", "fake.c")))
	put := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(guests+".new", []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(guests+".new", guests); err != nil {
			t.Fatal(err)
		}
	}
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	put(fmt.Sprintf("0 %d %d C", stranger.Process.Pid, 3<<30))
	f.startEtcd()
	f.startCoordinator(1)
	f.startProgram("agent-n1", "/usr/bin/env", "FAKE_NVML_PROCESSES="+guests, binary, "agent", "--node", "n1", "--etcd", f.endpoint,
		"--bind", f.addr(1), "--socket", f.socket(1), "--data-dir", f.nodeDir(1), "--lock-dir", filepath.Join(f.dir, "locks"),
		"--nvml-library", library, "--foreign-processes", "refuse")
	f.awaitMembers()
	shown := func(what string, words ...string) {
		t.Helper()
		args, out := strings.Fields(what), ""
		defer func() {
			if t.Failed() {
				t.Logf("bellows %s:\n%s", what, out)
			}
		}()
		f.eventually(fmt.Sprintf("%s to say %q", what, words), func() bool {
			out, _, _ = f.bellows(args...)
			for _, w := range words {
				if !strings.Contains(out, w) {
					return false
				}
			}
			return true
		})
	}
	who := "in use by sleep of "
	shown("nodes", "10%", "3/32 GiB", "GPU-fake-0: "+who)
	shown("nodes --devices", "3/16 GiB", "50°C", "51°C", who)

	two := f.sdkJob("two", 2, 2, 1<<20, 0.05)
	wide := f.submit(two)
	f.submit(f.sdkJob("one", 1, 1, 1<<20, 0.05))
	f.awaitStep("one", 3, 1)
	if devices := f.show("one").Members[0].Devices; len(devices) != 1 || devices[0] != "GPU-fake-1" {
		t.Errorf("one runs on %v, want the device without a stranger", devices)
	}
	if s := f.show(wide); s.Phase != cluster.Queued {
		t.Errorf("the job that needs both is %s: %s", s.Phase, s.Reason)
	}
	shown("show one", "11%")
	f.mustBellows("stop", "-w", "one")
	put()
	f.awaitPhase(wide, cluster.Running)
}
