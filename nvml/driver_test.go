package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/bellows-ml/bellows/cluster"
)

// dgx is eight A100 behind six switches, as go-nvml's mock has them, with what
// the mock leaves out.
func dgx() (*driver, *dgxa100.Server) {
	server := dgxa100.New()
	for i, d := range server.Devices {
		d := d.(*dgxa100.Device)
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(7 + i)}, nvml.SUCCESS
		}
		d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 40 << 30, Used: uint64(i) << 30}, nvml.SUCCESS
		}
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: uint32(10 * i)}, nvml.SUCCESS
		}
		none := func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
		d.GetComputeRunningProcessesFunc, d.GetMPSComputeRunningProcessesFunc, d.GetGraphicsRunningProcessesFunc = none, none, none
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return uint32(40 + i), nvml.SUCCESS }
		d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
			return 0, nvml.ERROR_NOT_SUPPORTED
		}
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 4, nvml.SUCCESS } // a power cap
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
		d.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
			values[0].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			return nvml.SUCCESS
		}
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(0xc0 + link/2)}, nvml.SUCCESS // two links to each switch
		}
		d.GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
		}
	}
	has := func(string) bool { return true }
	server.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	return &driver{lib: server, has: has, sys: "testdata/none", xids: newXids(server, has)}, server
}

func read(t *testing.T, d *driver) Survey {
	t.Helper()
	s, err := d.survey()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestADGXIsReadWhole(t *testing.T) {
	d, server := dgx()
	d.sys = t.TempDir()
	if err := os.MkdirAll(filepath.Join(d.sys, "0000:0a:00.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.sys, "0000:0a:00.0", "numa_node"), []byte("3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := server.Devices[3].(*dgxa100.Device)
	third.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 900, UsedGpuMemory: 1 << 30}, {Pid: 40, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
	}
	s := read(t, d)
	if len(s.Devices) != 8 || s.Driver != "550.54.15" || s.Problem != "" {
		t.Fatalf("got %d devices, driver %s, problem %q", len(s.Devices), s.Driver, s.Problem)
	}
	busy, celsius, minor := 30, 43, uint32(3)
	want := Reading{
		Device: cluster.Device{
			ID: cluster.DeviceID(third.UUID), Model: "Mock NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Health: cluster.Healthy,
		},
		Index: 3, PCI: "0000:0a:00.0", NUMA: 3, Minor: &minor, Busy: &busy, MemoryUsedBytes: 3 << 30, TemperatureC: &celsius,
		Processes: []Process{{PID: 40}, {PID: 900, MemoryBytes: 1 << 30}},
	}
	if !reflect.DeepEqual(s.Devices[3], want) {
		t.Errorf("got  %+v\nwant %+v", s.Devices[3], want)
	}
	if len(s.Links) != 8*7/2 {
		t.Fatalf("got %d links, want one for each pair", len(s.Links))
	}
	for _, l := range s.Links {
		if l.NVLinks != 12 || l.Path != "SYS" {
			t.Errorf("got %+v, want 12 links through switches, PCIe across sockets", l)
		}
	}
}

// A number that belongs to no device, or is missing, is not taken for one.
func TestFilesWithoutANumber(t *testing.T) {
	d, server := dgx()
	for i, answer := range []func() (int, nvml.Return){
		func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED },
		func() (int, nvml.Return) { return LastMinor + 1, nvml.SUCCESS },
		func() (int, nvml.Return) { return -1, nvml.SUCCESS },
		func() (int, nvml.Return) { return LastMinor, nvml.SUCCESS },
	} {
		server.Devices[i].(*dgxa100.Device).GetMinorNumberFunc = answer
	}
	devices := read(t, d).Devices
	if devices[0].Minor != nil || devices[1].Minor != nil || devices[2].Minor != nil || devices[3].Minor == nil || *devices[3].Minor != LastMinor {
		t.Errorf("got %v %v %v %v", devices[0].Minor, devices[1].Minor, devices[2].Minor, devices[3].Minor)
	}
	old, _ := dgx()
	old.has = func(symbol string) bool { return symbol != "nvmlDeviceGetMinorNumber" }
	if m := read(t, old).Devices[0].Minor; m != nil {
		t.Errorf("of a library that knows no such call: %d", *m)
	}
	server.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	if m := read(t, d).Devices[3].Minor; m == nil || *m != LastMinor {
		t.Errorf("of a device that was lost: %v", m)
	}
}

func TestDirectLinksAreCountedByPair(t *testing.T) {
	d, server := dgx()
	for i, device := range server.Devices {
		device.(*dgxa100.Device).GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(7 + (i ^ 1))}, nvml.SUCCESS // all twelve to the neighbour
		}
	}
	for _, l := range read(t, d).Links {
		a, b := 0, 0
		for i, device := range server.Devices {
			switch cluster.DeviceID(device.(*dgxa100.Device).UUID) {
			case l.A:
				a = i
			case l.B:
				b = i
			}
		}
		want := 0
		if a^1 == b {
			want = 12
		}
		if l.NVLinks != want {
			t.Errorf("devices %d and %d: got %d links, want %d", a, b, l.NVLinks, want)
		}
	}
}

// The topology takes a call for each pair: it is read once for the same devices.
func TestTopologyIsReadOnce(t *testing.T) {
	d, server := dgx()
	first := read(t, d).Links
	for _, device := range server.Devices {
		device.(*dgxa100.Device).GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			t.Error("read again")
			return 0, nvml.ERROR_UNKNOWN
		}
	}
	if again := read(t, d).Links; !reflect.DeepEqual(again, first) {
		t.Errorf("got %v, want %v", again, first)
	}
}

func TestADeviceCutIntoSlicesIsRefusedClearly(t *testing.T) {
	d, server := dgx()
	if _, ret := server.Devices[2].SetMigMode(nvml.DEVICE_MIG_ENABLE); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	s := read(t, d)
	for i, r := range s.Devices {
		if healthy := r.Health == cluster.Healthy; healthy != (i != 2) {
			t.Errorf("device %d is %s", i, r.Health)
		}
	}
	if got := s.Devices[2].Device.Problem; !strings.Contains(got, "MIG mode is on") || !strings.Contains(got, "nvidia-smi -i 2 -mig 0") {
		t.Errorf("the problem %q does not name the remedy", got)
	}
}

func TestWhatTheDriverSaysOfADeviceIsPutInWords(t *testing.T) {
	for ret, want := range map[nvml.Return]string{
		nvml.ERROR_GPU_IS_LOST:    "fell off the bus",
		nvml.ERROR_RESET_REQUIRED: "needs a reset",
		nvml.ERROR_UNKNOWN:        "does not answer the driver",
	} {
		d, server := dgx()
		read(t, d)
		server.Devices[5].(*dgxa100.Device).GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{}, ret
		}
		server.Devices[5].(*dgxa100.Device).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, ret }
		s := read(t, d)
		if len(s.Devices) != 8 || s.Devices[5].Health != cluster.Unhealthy || !strings.Contains(s.Devices[5].Device.Problem, want) {
			t.Errorf("%v: got %+v, want eight devices and %q of the sixth", ret, s.Devices[5], want)
		}
		for _, l := range s.Links {
			if l.A == s.Devices[5].ID || l.B == s.Devices[5].ID {
				t.Errorf("%v: a link to the lost device: %+v", ret, l)
			}
		}
	}
}

// An old library lacks functions: what they would have told stays unknown.
func TestALibraryWithoutExtrasIsEnough(t *testing.T) {
	d, server := dgx()
	d.has = func(string) bool { return false }
	for _, device := range server.Devices {
		device.(*dgxa100.Device).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 40 << 30, Used: 1 << 30}, nvml.SUCCESS
		}
		for _, f := range []any{
			&device.(*dgxa100.Device).GetUtilizationRatesFunc, &device.(*dgxa100.Device).GetMigModeFunc,
			&device.(*dgxa100.Device).GetComputeRunningProcessesFunc, &device.(*dgxa100.Device).GetNvLinkStateFunc,
			&device.(*dgxa100.Device).GetTopologyCommonAncestorFunc, &device.(*dgxa100.Device).GetTemperatureFunc,
			&device.(*dgxa100.Device).GetTotalEccErrorsFunc, &device.(*dgxa100.Device).GetCurrentClocksEventReasonsFunc,
			&device.(*dgxa100.Device).GetRemappedRowsFunc, &device.(*dgxa100.Device).GetFieldValuesFunc,
			&device.(*dgxa100.Device).GetMPSComputeRunningProcessesFunc, &device.(*dgxa100.Device).GetGraphicsRunningProcessesFunc,
		} {
			reflect.ValueOf(f).Elem().SetZero() // the mock panics when it is called
		}
	}
	for _, r := range read(t, d).Devices {
		if r.Health != cluster.Healthy || r.MemoryBytes != 40<<30 || r.Busy != nil || r.Processes != nil {
			t.Errorf("got %+v", r)
		}
	}
}

func TestALibraryThatCountsNothingIsAnError(t *testing.T) {
	d, server := dgx()
	server.Interface.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	if s, err := d.survey(); err == nil || !strings.Contains(err.Error(), "count devices") {
		t.Errorf("got %+v, %v", s, err)
	}
}

// Eight devices that all reach each other through switches are alike, whatever their NUMA nodes.
func TestSwitchedDevicesAreAlike(t *testing.T) {
	d, _ := dgx()
	for _, r := range read(t, d).Devices {
		if r.Group != "" || r.Device.NUMA != "" {
			t.Errorf("%s: group %q, NUMA node %q", r.ID, r.Group, r.Device.NUMA)
		}
	}
}

// Bridged pairs are groups, also for a device that is lost.
func TestBridgedPairsAreGroups(t *testing.T) {
	d, server := dgx()
	for i, device := range server.Devices {
		device.(*dgxa100.Device).GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Bus: uint32(7 + (i ^ 1))}, nvml.SUCCESS
		}
	}
	check := func() {
		t.Helper()
		for i, r := range read(t, d).Devices {
			if want := fmt.Sprintf("nvlink-%d", i&^1); r.Group != want {
				t.Errorf("device %d: group %q, want %q", i, r.Group, want)
			}
		}
	}
	check()
	server.Devices[3].(*dgxa100.Device).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	check()
}
