package nvml

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// childOf makes the test binary the probe's child: it names the library.
const childOf = "NVML_TEST_LIBRARY"

func TestMain(m *testing.M) {
	if library, ok := os.LookupEnv(childOf); ok {
		if err := Serve(os.Stdin, os.NewFile(3, "answers"), library); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeLibrary compiles testdata/fake.c.
func fakeLibrary(t *testing.T, flags ...string) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-o", library, "testdata/fake.c"}, flags...)
	if out, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compile the fake library: %v\n%s", err, out)
	}
	return library
}

// probeOf asks a child that loads library and has FAKE_NVML=mode.
func probeOf(t *testing.T, library, mode string, env ...string) *probe {
	t.Helper()
	command := append([]string{"/usr/bin/env", childOf + "=" + library, "FAKE_NVML=" + mode}, env...)
	p := newProbe(time.Minute, time.Minute, append(command, os.Args[0]))
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func survey(t *testing.T, s Source) Survey {
	t.Helper()
	got, err := s.Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refused asks for a survey that cannot be had and checks what is said of it.
func refused(t *testing.T, p *probe, words ...string) {
	t.Helper()
	s, err := p.Survey(t.Context())
	if err == nil {
		t.Fatalf("got %+v, want an error", s)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestSimulatedDevicesAreTheNodesOwn(t *testing.T) {
	s := Simulated("n2", 2, "H100", 80<<30)
	got := survey(t, s)
	want := []cluster.Device{
		{ID: "SIM-n2-0", Model: "H100", MemoryBytes: 80 << 30, Health: cluster.Healthy},
		{ID: "SIM-n2-1", Model: "H100", MemoryBytes: 80 << 30, Health: cluster.Healthy},
	}
	if !reflect.DeepEqual(got.Inventory(), want) {
		t.Fatalf("got %+v, want %+v", got.Inventory(), want)
	}
	got.Devices[0].Health = cluster.Unhealthy // the caller's copy
	if again := survey(t, s); again.Devices[0].Device != want[0] {
		t.Errorf("an answer can be changed from outside: %+v", again.Devices[0])
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestProbeReadsALibraryThatPrints(t *testing.T) {
	p := probeOf(t, fakeLibrary(t), "")
	got := survey(t, p)
	number := func(n int) *int { return &n }
	want := Survey{Driver: "550.54.15", Devices: []Reading{
		{
			Device: cluster.Device{ID: "GPU-fake-0", Model: "NVIDIA Fake", MemoryBytes: 1 << 34, Health: cluster.Healthy},
			Index:  0, PCI: "0000:07:00.0", NUMA: -1, Minor: new(uint32(0)), MemoryUsedBytes: 1 << 20, Busy: number(10), TemperatureC: number(50),
		},
		{
			Device: cluster.Device{ID: "GPU-fake-1", Model: "NVIDIA Fake", MemoryBytes: 1 << 34, Health: cluster.Healthy},
			Index:  1, PCI: "0000:08:00.0", NUMA: -1, Minor: new(uint32(1)), MemoryUsedBytes: 1 << 20, Busy: number(11), TemperatureC: number(51),
		},
	}, Links: []Link{{A: "GPU-fake-0", B: "GPU-fake-1"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	pid := p.child.cmd.Process.Pid
	survey(t, p)
	if again := p.child.cmd.Process.Pid; again != pid {
		t.Errorf("child %d was replaced by %d though it answered", pid, again)
	}
}

func TestWithoutADriverThereAreNoDevicesAndAReason(t *testing.T) {
	library := fakeLibrary(t)
	for _, c := range []struct{ library, mode, want string }{
		{filepath.Join(t.TempDir(), "missing.so"), "", "no NVIDIA driver here"},
		{library, "no-driver", "not loaded"},
		{library, "mismatch", "of different versions"},
	} {
		got := survey(t, probeOf(t, c.library, c.mode))
		if len(got.Devices) != 0 || !got.Refused || !strings.Contains(got.Problem, c.want) {
			t.Errorf("%s: got %+v, want no device and the problem %q", c.mode, got, c.want)
		}
	}
}

// A driver that is installed or loaded later is found by the next survey.
func TestADriverThatComesLaterIsFound(t *testing.T) {
	later := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	p := probeOf(t, later, "")
	if got := survey(t, p); got.Problem == "" {
		t.Fatalf("got %+v without a library", got)
	}
	if err := os.Rename(fakeLibrary(t), later); err != nil {
		t.Fatal(err)
	}
	if got := survey(t, p); len(got.Devices) != 2 || got.Problem != "" {
		t.Errorf("got %+v, want two devices", got)
	}
}

func TestALostDeviceStaysListedAndHidesNoOther(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "lost")
	p := probeOf(t, fakeLibrary(t), "lose", "FAKE_NVML_LOST="+flag)
	survey(t, p)
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := survey(t, p).Inventory()
	want := []cluster.Device{
		{ID: "GPU-fake-0", Model: "NVIDIA Fake", MemoryBytes: 1 << 34, Health: cluster.Healthy},
		{
			ID: "GPU-fake-1", Model: "NVIDIA Fake", MemoryBytes: 1 << 34, Health: cluster.Unhealthy,
			Problem: "fell off the bus: see dmesg for its Xid; reboot the node",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	if got := survey(t, p).Inventory(); got[1].Health != cluster.Healthy {
		t.Errorf("a device that is back stays %+v", got[1])
	}
}

// A device that was lost before anyone saw it has no name to list it by.
func TestADeviceLostBeforeTheFirstSurveyIsAProblem(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "lost")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := survey(t, probeOf(t, fakeLibrary(t), "", "FAKE_NVML_LOST="+flag))
	if len(got.Devices) != 1 || got.Refused || !strings.Contains(got.Problem, "device 1: fell off the bus") {
		t.Errorf("got %+v, want one device and a problem that names device 1", got)
	}
}

func TestAHangingLibraryIsGivenUp(t *testing.T) {
	library := fakeLibrary(t)
	for _, mode := range []string{"hang-init", "hang-count"} {
		p := probeOf(t, library, mode)
		p.first = 300 * time.Millisecond
		refused(t, p, "did not answer within 300ms", "dmesg")
		if p.child != nil || p.stuck != nil {
			t.Errorf("%s: a child is left: %+v, stuck %+v", mode, p.child, p.stuck)
		}
	}
}

// A child that cannot be killed, as in an uninterruptible call of the driver, is
// not joined by a second one; when it dies after all, the next survey works.
func TestAChildThatCannotBeKilledStaysTheOnlyOne(t *testing.T) {
	p := probeOf(t, fakeLibrary(t), "")
	survey(t, p)
	p.stuck, p.child = p.child, nil
	refused(t, p, fmt.Sprintf("process %d hangs", p.stuck.cmd.Process.Pid), "reboot")
	if p.child != nil {
		t.Fatal("a second child was started")
	}
	if err := syscall.Kill(p.stuck.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.stuck.gone
	if got := survey(t, p); len(got.Devices) != 2 {
		t.Errorf("got %+v, want two devices", got)
	}
}

func TestADyingLibraryTakesOnlyTheChild(t *testing.T) {
	refused(t, probeOf(t, fakeLibrary(t), "crash"), "ended", "SIGABRT")
	refused(t, probeOf(t, fakeLibrary(t, "-DOLD"), ""), "too old", "nvmlDeviceGetCount", "newer driver")
}

// A child that is killed between two surveys is replaced without an error.
func TestAKilledChildIsReplaced(t *testing.T) {
	p := probeOf(t, fakeLibrary(t), "")
	survey(t, p)
	c := p.child
	if err := syscall.Kill(c.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.gone
	if got := survey(t, p); len(got.Devices) != 2 {
		t.Errorf("got %+v, want two devices", got)
	}
}

// The child goes with the agent, even out of a hanging call.
func TestTheChildEndsWithItsParent(t *testing.T) {
	c, err := start([]string{"/usr/bin/env", childOf + "=" + fakeLibrary(t), "FAKE_NVML=hang-init", os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write([]byte(ask + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.gone
	if c.err != nil {
		t.Errorf("child: %v", c.err)
	}
}

func TestNonsenseFromTheChildIsAnError(t *testing.T) {
	p := newProbe(time.Minute, time.Minute, []string{"/bin/sh", "-c", "read x; echo nonsense >&3; read x"})
	refused(t, p, "read its answer", "invalid character")
	p = newProbe(time.Minute, time.Minute, []string{"/nonexistent/program"})
	refused(t, p, "start /nonexistent/program")
}
