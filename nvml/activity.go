//go:build cgo

package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/bellows-ml/bellows/cluster"
)

// activity reads what only informs: what is refused stays unknown.
func (d *driver) activity(r *Reading, handle nvml.Device) {
	if d.has("nvmlDeviceGetUtilizationRates") {
		if u, ret := handle.GetUtilizationRates(); ret == nvml.SUCCESS {
			busy := int(u.Gpu)
			r.Busy = &busy
		}
	}
	if d.has("nvmlDeviceGetTemperature") {
		if t, ret := handle.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
			celsius := int(t)
			r.TemperatureC = &celsius
		}
	}
	if d.has("nvmlDeviceGetTotalEccErrors") {
		if n, ret := handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
			r.UncorrectedECC = &n
		}
	}
	r.Slowed = d.slowed(handle)
	d.xids.register(r.ID, handle)
	if x, ok := d.xids.last[r.ID]; ok {
		r.LastXid = &x
	}
	r.Processes = d.processes(handle)
}

// slowed names what holds the clocks down by force. A cap by power is a setting, and normal.
func (d *driver) slowed(handle nvml.Device) string {
	if !d.has("nvmlDeviceGetCurrentClocksEventReasons") {
		return ""
	}
	reasons, ret := handle.GetCurrentClocksEventReasons()
	if ret != nvml.SUCCESS {
		return ""
	}
	const hardware, heat, brake = 8, 64, 128 // nvmlClocksEventReasonHwSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown
	var what []string
	if reasons&heat != 0 {
		what = append(what, "heat")
	}
	if reasons&brake != 0 {
		what = append(what, "power brake")
	}
	if reasons&hardware != 0 && what == nil {
		what = append(what, "hardware")
	}
	return strings.Join(what, ", ")
}

// processes lists who is on the device. Clients of an MPS server are listed
// apart from it, and one that computes and draws computes.
func (d *driver) processes(handle nvml.Device) []Process {
	byPID := map[uint32]Process{}
	take := func(list []nvml.ProcessInfo, graphics bool) {
		for _, p := range list {
			used := p.UsedGpuMemory
			if used == ^uint64(0) { // not available
				used = 0
			}
			if _, known := byPID[p.Pid]; !known {
				byPID[p.Pid] = Process{PID: int(p.Pid), MemoryBytes: used, Graphics: graphics}
			}
		}
	}
	for _, source := range []struct {
		symbol   string
		list     func() ([]nvml.ProcessInfo, nvml.Return)
		graphics bool
	}{
		{"nvmlDeviceGetComputeRunningProcesses", handle.GetComputeRunningProcesses, false},
		{"nvmlDeviceGetMPSComputeRunningProcesses", handle.GetMPSComputeRunningProcesses, false},
		{"nvmlDeviceGetGraphicsRunningProcesses", handle.GetGraphicsRunningProcesses, true},
	} {
		if !d.has(source.symbol) {
			continue
		}
		if list, ret := source.list(); ret == nvml.SUCCESS {
			take(list, source.graphics)
		}
	}
	var all []Process
	for _, p := range byPID {
		all = append(all, p)
	}
	// Those that compute come first if not all can be kept.
	slices.SortFunc(all, func(a, b Process) int {
		if a.Graphics != b.Graphics {
			if a.Graphics {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.PID, b.PID)
	})
	all = all[:min(len(all), MaxProcesses)]
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// withoutUs comes before what the driver refuses while anybody has a device open,
// as the child that looks at them has all of them.
const withoutUs = "drain this node, systemctl stop bellows-agent, "

// health takes the driver's own verdict of a device where it has one, rather than
// what its error numbers would let one guess.
func (d *driver) health(r *Reading, handle nvml.Device) {
	problem := func(format string, args ...any) {
		if r.Health == cluster.Healthy {
			r.Health, r.Device.Problem = cluster.Unhealthy, fmt.Sprintf(format, args...)
		}
	}
	if d.has("nvmlDeviceGetMigMode") {
		if mode, _, ret := handle.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
			problem("MIG mode is on and Bellows gives out whole devices: "+withoutUs+"nvidia-smi -i %d -mig 0", r.Index)
		}
	}
	switch d.recovery(handle) {
	case nvml.GPU_RECOVERY_ACTION_GPU_RESET, nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
		problem("needs a reset, the driver says: "+withoutUs+"nvidia-smi -i %d --gpu-reset", r.Index)
	case nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:
		problem("the driver says that this node has to be rebooted")
	case nvml.GPU_RECOVERY_ACTION_DRAIN_P2P:
		problem("its links to other devices have failed, the driver says: see nvidia-smi -i %d -q and dmesg", r.Index)
	}
	if !d.has("nvmlDeviceGetRemappedRows") {
		return
	}
	switch _, _, pending, failed, ret := handle.GetRemappedRows(); {
	case ret != nvml.SUCCESS:
	case failed:
		problem("a bad row of its memory could not be replaced: have the device exchanged")
	case pending:
		r.Warning = fmt.Sprintf("a bad row of its memory is replaced with the next reset: "+withoutUs+"nvidia-smi -i %d --gpu-reset", r.Index)
	}
}

// recovery is what the driver says should be done about the device. Drivers
// before 570 do not say.
func (d *driver) recovery(handle nvml.Device) nvml.DeviceGpuRecoveryAction {
	if !d.has("nvmlDeviceGetFieldValues") {
		return nvml.GPU_RECOVERY_ACTION_NONE
	}
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := handle.GetFieldValues(values); ret != nvml.SUCCESS || nvml.Return(values[0].NvmlReturn) != nvml.SUCCESS { //nolint:gosec // a return code
		return nvml.GPU_RECOVERY_ACTION_NONE
	}
	// An unsigned number, of which the actions need the first byte, on any machine that CUDA runs on.
	return nvml.DeviceGpuRecoveryAction(values[0].Value[0])
}

// xids keeps the last critical error of each device.
type xids struct {
	set        nvml.EventSet // nil = the library has no events
	registered map[cluster.DeviceID]bool
	last       map[cluster.DeviceID]Xid
}

// maxXids bounds how many errors are taken at once: a device that is about to
// die reports them without end.
const maxXids = 1000

func newXids(lib nvml.Interface, has func(string) bool) *xids {
	x := &xids{registered: map[cluster.DeviceID]bool{}, last: map[cluster.DeviceID]Xid{}}
	for _, symbol := range []string{"nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"} {
		if !has(symbol) {
			return x
		}
	}
	if set, ret := lib.EventSetCreate(); ret == nvml.SUCCESS {
		x.set = set
	}
	return x
}

// register asks for a device's errors to come, once.
func (x *xids) register(id cluster.DeviceID, handle nvml.Device) {
	if x.set == nil || x.registered[id] {
		return
	}
	x.registered[id] = handle.RegisterEvents(nvml.EventTypeXidCriticalError, x.set) == nvml.SUCCESS
}

// drainXids takes in what has come since the last look, without waiting.
func (d *driver) drainXids() {
	if d.xids.set == nil {
		return
	}
	for range maxXids {
		event, ret := d.xids.set.Wait(0)
		if ret != nvml.SUCCESS { // nothing more, for now
			return
		}
		if id, ret := event.Device.GetUUID(); ret == nvml.SUCCESS && event.EventType == nvml.EventTypeXidCriticalError {
			d.xids.last[cluster.DeviceID(id)] = Xid{Code: event.EventData, At: time.Now().UTC()}
		}
	}
}
