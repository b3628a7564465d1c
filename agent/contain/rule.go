package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rule is the most that the processes of a group may have of one of the kernel's controllers, together.
type rule struct {
	controller string
	v2, v1     func(dir string) error // put it in force on a group of either version
	memory     uint64                 // bytes; 0 = it is about something else
}

// rules are those that hold a process within limits. What is 0 is not limited.
func rules(memory uint64, cpus float64) (all []rule) {
	if memory > 0 {
		all = append(all, atMostMemory(memory))
	}
	if cpus > 0 {
		all = append(all, atMostCPUs(cpus))
	}
	return all
}

// what names what is limited, for people.
func (r rule) what() string {
	switch r.controller {
	case "cpu":
		return "processors"
	case "pids":
		return "processes"
	}
	return r.controller
}

func atMostMemory(bytes uint64) rule {
	most := strconv.FormatUint(bytes, 10)
	return rule{
		controller: "memory", memory: bytes,
		v2: func(dir string) error {
			if err := set(dir, "memory.max", most); err != nil {
				return err
			}
			// The group is killed as a whole: half of what is inside is of no use.
			if err := set(dir, "memory.oom.group", "1"); err != nil {
				return err
			}
			if err := set(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err // without swap there is no such file
			}
			return nil
		},
		v1: func(dir string) error {
			if err := set(dir, "memory.limit_in_bytes", most); err != nil {
				return err
			}
			// Of memory and swap together. Kernels that do not count swap lack it.
			if err := set(dir, "memory.memsw.limit_in_bytes", most); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		},
	}
}

// cpuPeriod is the kernel's usual period of accounting for processors, in microseconds.
const cpuPeriod = 100_000

func atMostCPUs(cpus float64) rule {
	quota := max(1000, int64(cpus*cpuPeriod)) // microseconds in a period; the kernel takes no less
	return rule{
		controller: "cpu",
		v2: func(dir string) error {
			return set(dir, "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod))
		},
		v1: func(dir string) error {
			if err := set(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
				return err
			}
			return set(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
		},
	}
}

func atMostProcesses(n int) rule {
	write := func(dir string) error { return set(dir, "pids.max", strconv.Itoa(n)) }
	return rule{controller: "pids", v2: write, v1: write}
}

// starved reports whether the kernel has killed something in the room because that had no more memory.
func (r *room) starved() bool {
	switch {
	case r.memory == "":
		return false
	case r.memoryV2:
		// Both, or it was a group above that had no more.
		return counted(r.memory, "memory.events", "oom") > 0 && counted(r.memory, "memory.events", "oom_kill") > 0
	}
	// The kernel does not tell whose limit it was. It charges in batches, so that the
	// most that was ever used stays a little below; a kill for the whole machine's
	// want would hardly meet a worker there. (failcnt is not kept by all kernels.)
	most := counted(r.memory, "memory.max_usage_in_bytes", "")
	near := int64(r.bytes / 10 * 9) //nolint:gosec // as large as the kernel's own numbers
	return most >= near && counted(r.memory, "memory.oom_control", "oom_kill") > 0
}

// counted reads a number from a file of a cgroup: the line's that begins with
// name, or the only one. What cannot be read is 0.
func counted(dir, file, name string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == name || len(fields) == 1 && name == "" {
			n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
