package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/bellows-ml/bellows/cluster"
)

// guests writes who is on the fake library's devices.
func guests(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "guests")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Processes that compute are listed, also through MPS; those that only draw are marked.
func TestWhoIsOnADevice(t *testing.T) {
	path := guests(t, "0 900 1000 C", "0 40 2000 M", "0 41 3000 G", "0 900 1000 G", "1 7 1 C", "0 0 5000 C")
	got := survey(t, probeOf(t, fakeLibrary(t), "", "FAKE_NVML_PROCESSES="+path)).Devices
	want := []Process{{PID: 40, MemoryBytes: 2000}, {PID: 41, MemoryBytes: 3000, Graphics: true}, {PID: 900, MemoryBytes: 1000}}
	if !reflect.DeepEqual(got[0].Processes, want) || got[0].MemoryUsedBytes != 1<<20+12000 {
		t.Errorf("got %+v, %d bytes used", got[0].Processes, got[0].MemoryUsedBytes)
	}
	if !reflect.DeepEqual(got[1].Processes, []Process{{PID: 7, MemoryBytes: 1}}) {
		t.Errorf("of the other device: %+v", got[1].Processes)
	}
}

// A list that is too long is cut, those that compute first.
func TestALongListOfProcessesIsCut(t *testing.T) {
	lines := []string{"0 100000 1 C"}
	for pid := range 2 * MaxProcesses {
		lines = append(lines, fmt.Sprintf("0 %d 1 G", pid+1))
	}
	got := survey(t, probeOf(t, fakeLibrary(t), "", "FAKE_NVML_PROCESSES="+guests(t, lines...))).Devices[0].Processes
	if len(got) != MaxProcesses || got[len(got)-1] != (Process{PID: 100000, MemoryBytes: 1}) {
		t.Errorf("%d processes, the last %+v", len(got), got[len(got)-1])
	}
}

func TestAListThatCannotBeHad(t *testing.T) {
	library := fakeLibrary(t)
	if got := survey(t, probeOf(t, library, "refuse-processes")).Devices; len(got) != 2 || got[0].Processes != nil || got[0].Health != cluster.Healthy {
		t.Errorf("refused: %+v", got)
	}
	for _, mode := range []string{"hang-processes", "endless-processes"} {
		p := probeOf(t, library, mode)
		p.first = 300 * time.Millisecond
		if s, err := p.Survey(t.Context()); err == nil {
			t.Errorf("%s: got %+v", mode, s)
		}
		if p.child != nil || p.stuck != nil {
			t.Errorf("%s: a child is left: %+v, stuck %+v", mode, p.child, p.stuck)
		}
	}
}

func TestTheDriversVerdictIsTaken(t *testing.T) {
	d, server := dgx()
	device := func(i int) *dgxa100.Device { return server.Devices[i].(*dgxa100.Device) }
	for i, action := range []nvml.DeviceGpuRecoveryAction{
		nvml.GPU_RECOVERY_ACTION_NONE, nvml.GPU_RECOVERY_ACTION_GPU_RESET, nvml.GPU_RECOVERY_ACTION_NODE_REBOOT, nvml.GPU_RECOVERY_ACTION_DRAIN_P2P,
	} {
		device(i).GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
			if values[0].FieldId != nvml.FI_DEV_GET_GPU_RECOVERY_ACTION {
				t.Errorf("field %d is asked for", values[0].FieldId)
			}
			values[0].Value[0] = byte(action)
			return nvml.SUCCESS
		}
	}
	rows := func(pending, failed bool) func() (int, int, bool, bool, nvml.Return) {
		return func() (int, int, bool, bool, nvml.Return) { return 0, 1, pending, failed, nvml.SUCCESS }
	}
	device(4).GetRemappedRowsFunc, device(5).GetRemappedRowsFunc = rows(true, false), rows(true, true)
	device(6).GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 8 | 64 | 128 | 4, nvml.SUCCESS }
	device(7).GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 3, nvml.SUCCESS }
	got := read(t, d).Devices
	for i, want := range []string{"", "--gpu-reset", "rebooted", "links", "", "exchanged", "", ""} {
		r := got[i]
		if (r.Health == cluster.Healthy) != (want == "") || !strings.Contains(r.Device.Problem, want) {
			t.Errorf("device %d: %s, %q, want %q", i, r.Health, r.Device.Problem, want)
		}
	}
	if !strings.Contains(got[4].Warning, "next reset") || got[6].Slowed != "heat, power brake" || got[7].UncorrectedECC == nil || *got[7].UncorrectedECC != 3 {
		t.Errorf("warning %q, slowed by %q, ECC %v", got[4].Warning, got[6].Slowed, got[7].UncorrectedECC)
	}
}

func TestTheLastXidIsKept(t *testing.T) {
	d, server := dgx()
	var events []nvml.EventData
	set := &mock.EventSet{WaitFunc: func(milliseconds uint32) (nvml.EventData, nvml.Return) {
		if milliseconds != 0 {
			t.Errorf("waits for %d ms", milliseconds)
		}
		if len(events) == 0 {
			return nvml.EventData{}, nvml.ERROR_TIMEOUT
		}
		next := events[0]
		events = events[1:]
		return next, nvml.SUCCESS
	}}
	server.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS }
	registered := 0
	for _, device := range server.Devices {
		device.(*dgxa100.Device).RegisterEventsFunc = func(kinds uint64, _ nvml.EventSet) nvml.Return {
			registered++
			if kinds != nvml.EventTypeXidCriticalError {
				t.Errorf("asks for events %d", kinds)
			}
			return nvml.SUCCESS
		}
	}
	d.xids = newXids(server, d.has)
	if r := read(t, d).Devices[2]; r.LastXid != nil {
		t.Errorf("an error without one: %+v", r.LastXid)
	}
	events = []nvml.EventData{
		{Device: server.Devices[2], EventType: nvml.EventTypeXidCriticalError, EventData: 31},
		{Device: server.Devices[2], EventType: nvml.EventTypeXidCriticalError, EventData: 94},
	}
	for range 2 { // it stays
		got := read(t, d).Devices
		if got[2].LastXid == nil || got[2].LastXid.Code != 94 || got[1].LastXid != nil {
			t.Errorf("got %+v and %+v, want 94 of the third only", got[2].LastXid, got[1].LastXid)
		}
	}
	if registered != len(server.Devices) {
		t.Errorf("asked %d times, want once for each device", registered)
	}
}
