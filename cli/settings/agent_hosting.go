package settings

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent/host"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
)

// hosting is how an agent holds workers and what it keeps of them.
type hosting struct {
	containment           string
	strangers             string
	logSize, keepLogsSize units.Bytes
	keepLogs              time.Duration
	processes             int
	launcherMemory        string
}

// leastProcesses lets an interpreter start with its libraries' threads.
const leastProcesses = 64

func hostingFlags(f *flags.Set) *hosting {
	h := &hosting{}
	f.StringVar(&h.containment, "containment", "auto",
		"what holds workers together: cgroup2, cgroup1 (the v1 freezer), weak, or auto: the strongest that there is")
	f.StringVar(&h.strangers, "foreign-processes", string(devices.AutoStrangers),
		"what other people's processes on a device do to it: refuse (no new work comes there), ignore, or auto: refuse, by memory alone where this agent sees other pids than the driver")
	f.IntVar(&h.processes, "processes-per-device", host.DefaultProcesses,
		"how many processes and threads a job may have here for each of its devices, where the kernel's pids controller can be had; 0 = any number")
	f.StringVar(&h.launcherMemory, "launcher-memory", "",
		"how much memory the processes that run ahead for warm starts may have here together, as in 8GiB (default: a tenth of the machine's); 0 = nothing is prepared here")
	h.logSize, h.keepLogsSize = host.DefaultLogBytes, host.DefaultKeepLogsBytes
	f.Var(&h.logSize, "log-size", "how much is kept of each rank's log in a generation; the oldest half goes first")
	f.DurationVar(&h.keepLogs, "keep-logs", host.DefaultKeepLogsAge, "how long the logs of a generation are kept once nothing is written to them any more")
	f.Var(&h.keepLogsSize, "keep-logs-size", "how much all logs of this node may take up; the oldest go first, those of running jobs stay")
	return h
}

func (h *hosting) apply(cfg *host.Config) error {
	var bad fault.List
	if h.containment != "auto" {
		cfg.Containment = h.containment
		if err := host.CheckContainment(h.containment); err != nil {
			bad.Add(fault.Usage("--%w", err))
		}
	}
	if cfg.Processes = h.processes; h.processes == 0 {
		cfg.Processes = -1 // which is no default
	}
	if h.processes < 0 || h.processes > 0 && h.processes < leastProcesses {
		bad.Add(fault.Usage("--processes-per-device %d: use %d or more, as every thread counts, or 0 for any number", h.processes, leastProcesses))
	}
	switch h.launcherMemory {
	case "":
	case "0":
		cfg.LauncherMemory = -1
	default:
		n, err := units.ParseBytes(h.launcherMemory)
		if err != nil {
			bad.Add(fault.Usage("--launcher-memory %w, or 0 to prepare nothing here", err))
		}
		cfg.LauncherMemory = n
	}
	if h.keepLogs <= 0 {
		bad.Add(fault.Usage("--keep-logs %s: use a positive duration, as in 168h", h.keepLogs))
	}
	cfg.Strangers = devices.Strangers(h.strangers)
	if !slices.Contains([]devices.Strangers{devices.AutoStrangers, devices.RefuseStrangers, devices.IgnoreStrangers}, cfg.Strangers) {
		bad.Add(fault.Usage("--foreign-processes %q: use %s, %s or %s", h.strangers, devices.AutoStrangers, devices.RefuseStrangers, devices.IgnoreStrangers))
	}
	cfg.LogBytes = int64(h.logSize)
	cfg.KeepLogs = host.KeepLogs{Age: h.keepLogs, Bytes: int64(h.keepLogsSize)}
	return bad.Err()
}
