package cluster

// Bounds of Limits.
const (
	MinWorkerMemory = 16 << 20 // bytes; less holds no interpreter
	MaxWorkerMemory = 1 << 50
	MinWorkerCPUs   = 0.01 // the kernel's own least share of a processor
	MaxWorkerCPUs   = 1 << 16
)

// Limits bound what a worker, with all that it starts, may use of its node, for
// each device that it has. They reserve nothing. The zero value: no bounds.
type Limits struct {
	MemoryBytes uint64  `json:"memory_bytes,omitempty"` // without swap
	CPUs        float64 `json:"cpus,omitempty"`
}

// Of returns the limits of a worker with that many devices.
func (l Limits) Of(devices int) Limits {
	return Limits{l.MemoryBytes * uint64(devices), l.CPUs * float64(devices)} //nolint:gosec // a number of devices
}

func (l Limits) validate(add func(string, ...any)) {
	switch {
	case l.MemoryBytes > MaxWorkerMemory:
		add("memory per worker %d: use %d bytes (1 PiB) or less, as in 8G", l.MemoryBytes, uint64(MaxWorkerMemory))
	case l.MemoryBytes != 0 && l.MemoryBytes < MinWorkerMemory:
		add("memory per worker %d: use %d bytes (16 MiB) or more, as in 8G", l.MemoryBytes, uint64(MinWorkerMemory))
	}
	if l.CPUs != 0 && !(l.CPUs >= MinWorkerCPUs && l.CPUs <= MaxWorkerCPUs) { // also what is no number
		add("cpus per worker %g: use %g to %d processors, as in 4 or 0.5", l.CPUs, MinWorkerCPUs, MaxWorkerCPUs)
	}
}
