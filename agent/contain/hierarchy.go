package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// hierarchy is one of the kernel's trees of cgroups, which may be mounted anywhere.
type hierarchy struct {
	fstype     string // as mounts name it
	controller string // a controller of the hierarchy; "" is v2, which there is one of
}

func (h hierarchy) String() string {
	if h.controller == "" {
		return "cgroup v2"
	}
	return "cgroup v1 " + h.controller
}

// own finds the directory of the cgroup that this process is in.
func (h hierarchy) own() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find own cgroup: %w", err)
	}
	own := ""
	for line := range strings.Lines(string(b)) {
		if path, ok := h.path(strings.TrimSuffix(line, "\n")); ok {
			own = path
		}
	}
	if own == "" {
		return "", fmt.Errorf("find own cgroup: this kernel has no %s", h)
	}
	mounts, err := proc.Mounts()
	if err != nil {
		return "", fmt.Errorf("find cgroup mount: %w", err)
	}
	for _, m := range mounts {
		if dir, ok := h.mountedAt(m, own); ok {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find cgroup mount: no %s is mounted that shows %s", h, own)
}

// path reads one line of /proc/<pid>/cgroup, hierarchy:controllers:path; v2 is 0::path.
func (h hierarchy) path(line string) (string, bool) {
	fields := strings.SplitN(line, ":", 3)
	if len(fields) != 3 || !slices.Contains(strings.Split(fields[1], ","), h.controller) {
		return "", false
	}
	return fields[2], true
}

// mountedAt says where the cgroup own lies if a mount shows it.
func (h hierarchy) mountedAt(m proc.Mount, own string) (string, bool) {
	if m.Type != h.fstype || h.controller != "" && !slices.Contains(m.Options, h.controller) {
		return "", false
	}
	rel, err := filepath.Rel(m.Root, own)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.Join(m.Dir, rel), true
}

// Mount is where a tree of cgroups is mounted.
type Mount struct {
	Dir  string
	Kind string // of containment, one of package run's, that has its groups there; "" = none
}

// Mounts lists the mounts of cgroups that this process sees, each tree once.
func Mounts() ([]Mount, error) {
	all, err := proc.Mounts()
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	var mounts []Mount
	seen := map[string]bool{} // a file system that is mounted twice shows the same groups
	for _, at := range all {
		key := at.Device + at.Root
		if at.Type != "cgroup" && at.Type != "cgroup2" || seen[key] {
			continue
		}
		seen[key] = true
		m := Mount{Dir: at.Dir}
		switch {
		case at.Type == "cgroup2":
			m.Kind = run.Cgroup2
		case slices.Contains(at.Options, "freezer"):
			m.Kind = run.Cgroup1
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// makeGroup makes a cgroup. Its error is the same for each run.
func makeGroup(path string) error {
	err := os.Mkdir(path, 0o755)
	if at, ok := errors.AsType[*os.PathError](err); ok {
		err = at.Err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("make a cgroup in %s: %w: run the agent as root", filepath.Dir(path), err)
	}
	return fmt.Errorf("make a cgroup in %s: %w", filepath.Dir(path), err)
}

// offers reports whether a v2 cgroup has a controller for its children.
func offers(dir, controller string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// turnOn lets a v2 cgroup's children have a controller.
func turnOn(dir, controller string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err == nil && slices.Contains(strings.Fields(string(b)), controller) {
		return nil
	}
	return set(dir, "cgroup.subtree_control", "+"+controller)
}

// set writes a file of a cgroup, which is there or is not for us.
func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set %s to %s: %w", file, value, err)
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s to %s: %w", file, value, err)
	}
	return nil
}
