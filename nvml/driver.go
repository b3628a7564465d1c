//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/bellows-ml/bellows/cluster"
)

// maxNVLinks is how many links a device can have at most (nvml.h, NVML_NVLINK_MAX_LINKS).
const maxNVLinks = 18

// driver reads the library. Only the child that Serve runs in uses it: any call may hang.
type driver struct {
	lib nvml.Interface
	// has reports whether the loaded library knows a symbol: calling one that it
	// lacks ends the process.
	has func(symbol string) bool
	sys string // where the kernel shows PCI devices

	last  map[int]Reading // what was last seen at an index, for a device that no longer answers
	known string          // the devices that links was read for
	links []Link
	xids  *xids
}

// open loads the library at path ("" = where the system has it).
func open(path string) (surveyor, error) {
	var options []nvml.LibraryOption
	if path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	lib := nvml.New(options...)
	// After a failed Init no other call is safe, not even Shutdown.
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, errors.New(initProblem(ret))
	}
	has := func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }
	return &driver{lib: lib, has: has, sys: "/sys/bus/pci/devices", xids: newXids(lib, has)}, nil
}

func initProblem(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "no NVIDIA driver here: libnvidia-ml.so.1 is not found; install the driver, or start the agent with --simulate-devices"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the NVIDIA driver is installed but not loaded: modprobe nvidia, and see dmesg"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the NVIDIA library and the loaded driver are of different versions, as after an upgrade: reload the driver or reboot"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission to use the NVIDIA driver: run the agent as root, or give it /dev/nvidia*"
	default:
		return fmt.Sprintf("initialise the NVIDIA library: %s: see nvidia-smi and dmesg", ret.Error())
	}
}

// survey looks at everything once. What one device refuses is that device's
// problem; that the library refuses is an error, after which it is to be loaded anew.
func (d *driver) survey() (Survey, error) {
	count, ret := d.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return Survey{}, fmt.Errorf("count devices: %s", ret.Error())
	}
	d.drainXids()
	s := Survey{Devices: []Reading{}}
	if version, ret := d.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		s.Driver = version
	}
	seen := map[int]Reading{}
	handles := map[cluster.DeviceID]nvml.Device{}
	var problems []string
	for i := range count {
		r, handle, err := d.read(i)
		if err != nil {
			old, ok := d.last[i]
			if !ok {
				problems = append(problems, fmt.Sprintf("device %d: %v", i, err))
				continue
			}
			// It was here and no longer answers: it stays, so that what runs on it can be named.
			r = Reading{Device: old.Device, Index: i, PCI: old.PCI, NUMA: old.NUMA, Minor: old.Minor}
			r.Health, r.Device.Problem = cluster.Unhealthy, err.Error()
		} else {
			handles[r.ID] = handle
		}
		seen[i] = r
		s.Devices = append(s.Devices, r)
	}
	d.last = seen
	s.Problem = strings.Join(problems, "; ")
	s.Links = d.topology(s.Devices, handles)
	locate(s.Devices, s.Links)
	for _, r := range s.Devices { // also where it will not answer
		d.last[r.Index] = r
	}
	return s, nil
}

// read looks at one device. The error is in a person's words.
func (d *driver) read(index int) (Reading, nvml.Device, error) {
	r := Reading{Index: index, NUMA: -1}
	handle, ret := d.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return r, nil, lost(ret)
	}
	id, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return r, nil, lost(ret)
	}
	r.ID, r.Health = cluster.DeviceID(id), cluster.Healthy
	if old, ok := d.last[index]; ok && old.ID == r.ID {
		r.Model, r.PCI, r.NUMA, r.Minor = old.Model, old.PCI, old.NUMA, old.Minor
	}
	if r.Model == "" {
		if r.Model, ret = handle.GetName(); ret != nvml.SUCCESS {
			return r, nil, lost(ret)
		}
	}
	if r.PCI == "" {
		r.PCI = d.address(handle)
		r.NUMA = d.numa(r.PCI)
	}
	if r.Minor == nil {
		r.Minor = d.minor(handle)
	}
	if err := d.memory(&r, handle); err != nil {
		return r, nil, err
	}
	d.activity(&r, handle)
	d.health(&r, handle)
	return r, handle, nil
}

// lost translates an error of a device for the operator of the machine.
func lost(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST:
		return errors.New("fell off the bus: see dmesg for its Xid; reboot the node")
	case nvml.ERROR_RESET_REQUIRED:
		return errors.New("needs a reset: " + withoutUs + "nvidia-smi --gpu-reset; or reboot the node")
	default:
		return fmt.Errorf("does not answer the driver: %s", ret.Error())
	}
}

func (d *driver) memory(r *Reading, handle nvml.Device) error {
	// The first version counts what the driver keeps for itself as used.
	if d.has("nvmlDeviceGetMemoryInfo_v2") {
		if m, ret := handle.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			r.MemoryBytes, r.MemoryUsedBytes = m.Total, m.Used
			return nil
		}
	}
	m, ret := handle.GetMemoryInfo()
	switch ret {
	case nvml.SUCCESS:
		r.MemoryBytes, r.MemoryUsedBytes = m.Total, m.Used
	case nvml.ERROR_NOT_SUPPORTED: // memory shared with the processor, as on Jetson and GB10
	default:
		return lost(ret)
	}
	return nil
}

// address is the device's place on the bus as the kernel writes it.
func (d *driver) address(handle nvml.Device) string {
	info, ret := handle.GetPciInfo()
	if ret != nvml.SUCCESS {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device)
}

// minor is the number of the device's file; nil where the driver has none for it.
func (d *driver) minor(handle nvml.Device) *uint32 {
	if !d.has("nvmlDeviceGetMinorNumber") {
		return nil
	}
	n, ret := handle.GetMinorNumber()
	if ret != nvml.SUCCESS || n < 0 || n > LastMinor {
		return nil
	}
	minor := uint32(n)
	return &minor
}

// numa asks the kernel, which knows it for every driver's age; −1 = unknown or none.
func (d *driver) numa(address string) int {
	text, err := os.ReadFile(filepath.Join(d.sys, address, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return node
}

// topology reads how the devices reach each other. That changes only with the
// devices themselves, and takes a call for each pair.
func (d *driver) topology(devices []Reading, handles map[cluster.DeviceID]nvml.Device) []Link {
	var ids []string
	for _, r := range devices {
		if handles[r.ID] != nil {
			ids = append(ids, string(r.ID))
		}
	}
	if key := strings.Join(ids, " "); key != d.known {
		d.known, d.links = key, d.readLinks(devices, handles)
	}
	return d.links
}

func (d *driver) readLinks(devices []Reading, handles map[cluster.DeviceID]nvml.Device) []Link {
	direct := map[[2]string]int{} // by PCI addresses, as each side counts them
	switched := map[string]int{}  // links that end in a switch
	of := map[string]bool{}
	for _, r := range devices {
		of[r.PCI] = true
	}
	for _, r := range devices {
		for _, remote := range d.nvlinks(handles[r.ID]) {
			if of[remote] {
				direct[[2]string{r.PCI, remote}]++
			} else {
				switched[r.PCI]++
			}
		}
	}
	var links []Link
	for i, a := range devices {
		for _, b := range devices[i+1:] {
			if handles[a.ID] == nil || handles[b.ID] == nil {
				continue
			}
			l := Link{A: a.ID, B: b.ID, Path: d.path(handles[a.ID], handles[b.ID])}
			// Through a switch every link of the one reaches the other.
			l.NVLinks = direct[[2]string{a.PCI, b.PCI}] + min(switched[a.PCI], switched[b.PCI])
			links = append(links, l)
		}
	}
	return links
}

// nvlinks lists where each of a device's active links ends.
func (d *driver) nvlinks(handle nvml.Device) []string {
	if handle == nil || !d.has("nvmlDeviceGetNvLinkState") || !d.has("nvmlDeviceGetNvLinkRemotePciInfo_v2") {
		return nil
	}
	var remotes []string
	for link := range maxNVLinks {
		if state, ret := handle.GetNvLinkState(link); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if info, ret := handle.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			remotes = append(remotes, fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device))
		}
	}
	return remotes
}

func (d *driver) path(a, b nvml.Device) string {
	if !d.has("nvmlDeviceGetTopologyCommonAncestor") {
		return ""
	}
	level, ret := a.GetTopologyCommonAncestor(b)
	if ret != nvml.SUCCESS {
		return ""
	}
	switch level {
	case nvml.TOPOLOGY_INTERNAL, nvml.TOPOLOGY_SINGLE:
		return "PIX"
	case nvml.TOPOLOGY_MULTIPLE:
		return "PXB"
	case nvml.TOPOLOGY_HOSTBRIDGE:
		return "PHB"
	case nvml.TOPOLOGY_NODE:
		return "NODE"
	case nvml.TOPOLOGY_SYSTEM:
		return "SYS"
	default:
		return ""
	}
}
