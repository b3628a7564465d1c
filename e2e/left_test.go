package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// nothingLeft demands I12: that soon after its end nothing is left of a job: no
// process, no lock of a device, no cgroup, no grant, no directory of a run. Its
// checkpoints, logs and records stay.
func (f *fleet) nothingLeft(id cluster.JobID) {
	f.t.Helper()
	var left []string
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if left = f.leftOf(id); len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("of job %s is left: %s\n%s", id, strings.Join(left, ", "), describe(f.mirror()))
		}
	}
}

func (f *fleet) leftOf(id cluster.JobID) (left []string) {
	for _, pid := range f.workers(id) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		left = append(left, fmt.Sprintf("process %d (%s)", pid, strings.ReplaceAll(string(cmdline), "\x00", " ")))
	}
	m := f.mirror()
	world := m.Job(id).Generation(m.Job(id).State.Value.Generation).Plan.Value.World
	for _, n := range m.NodeIDs() {
		if m.Node(n).Grants[id].Exists() {
			left = append(left, "its grant on "+string(n))
		}
	}
	left = append(left, f.held(world)...)
	left = append(left, f.paths(f.dir, "/run/", string(id))...)
	return append(left, f.paths("/sys/fs/cgroup", "", string(id))...)
}

// held lists the locks of a world's devices that a process holds.
func (p *place) held(w cluster.World) (locked []string) {
	for _, m := range w.Members {
		for _, device := range m.Devices {
			name := filepath.Join(p.dir, "locks", string(device)+".lock")
			file, err := os.OpenFile(name, os.O_RDWR, 0)
			if os.IsNotExist(err) {
				continue // it was never taken
			}
			if err != nil {
				p.t.Fatal(err)
			}
			if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
				locked = append(locked, "lock "+name)
			}
			_ = file.Close()
		}
	}
	return locked
}

// cgroups lists those of runs that were killed before they could take them away, as
// their directories name them.
func (p *place) cgroups() []string {
	return append(p.cgroupsOf("*/run/*"), p.cgroupsOf("*/run/*/*")...) // the second are of bellows dev
}

// cgroupsOf lists those of the runs whose directories match a pattern, below the fleet's.
func (p *place) cgroupsOf(pattern string) (dirs []string) {
	runs, _ := filepath.Glob(filepath.Join(p.dir, pattern, "shim.json"))
	for _, path := range runs {
		var run struct {
			Cgroup string
			Limits []string
		}
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &run) == nil {
			dirs = append(append(dirs, run.Cgroup), run.Limits...)
		}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return !strings.HasPrefix(dir, "/sys/fs/cgroup/") || !strings.Contains(dir, "bellows")
	})
}

// removeCgroup takes a cgroup away, with those in it, once its processes have ended.
func removeCgroup(dir string) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, dir := range dirs {
		for end := time.Now().Add(patience / 6); ; time.Sleep(20 * time.Millisecond) {
			if err := os.Remove(dir); err == nil || os.IsNotExist(err) || time.Now().After(end) {
				break
			}
		}
	}
}

// paths lists what lies below a directory, has a part in its path, and is named for a text.
func (p *place) paths(dir, part, text string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, part) && strings.Contains(e.Name(), text) {
			found = append(found, path)
		}
		return nil // what goes away meanwhile is not left
	})
	return found
}
