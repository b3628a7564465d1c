package contain

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// hierarchy is one of the kernel's trees of cgroups, which may be mounted anywhere.
type hierarchy struct {
	fstype     string // as mountinfo names it
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
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup mount: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if dir, ok := h.mountedAt(lines.Text(), own); ok {
			return dir, nil
		}
	}
	return "", errors.Join(fmt.Errorf("find cgroup mount: no %s is mounted that shows %s", h, own), lines.Err())
}

// path reads one line of /proc/<pid>/cgroup, hierarchy:controllers:path; v2 is 0::path.
func (h hierarchy) path(line string) (string, bool) {
	fields := strings.SplitN(line, ":", 3)
	if len(fields) != 3 || !slices.Contains(strings.Split(fields[1], ","), h.controller) {
		return "", false
	}
	return fields[2], true
}

// mountedAt reads one line of mountinfo,
//
//	41 31 0:38 /root /mount/point rw,relatime - cgroup2 cgroup2 rw
//
// and says where the cgroup own lies if that mount shows it.
func (h hierarchy) mountedAt(line, own string) (string, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields, source := strings.Fields(before), strings.Fields(after)
	if !ok || len(fields) < 5 || len(source) < 3 || source[0] != h.fstype {
		return "", false
	}
	if h.controller != "" && !slices.Contains(strings.Split(source[2], ","), h.controller) {
		return "", false
	}
	root, mount := unescape(fields[3]), unescape(fields[4])
	rel, err := filepath.Rel(root, own)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.Join(mount, rel), true
}

// unescape undoes mountinfo's octal escapes of white space and backslashes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Mount is where a tree of cgroups is mounted.
type Mount struct {
	Dir  string
	Kind string // of containment, one of package run's, that has its groups there; "" = none
}

// Mounts lists the mounts of cgroups that this process sees, each tree once.
func Mounts() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	defer f.Close()
	var mounts []Mount
	seen := map[string]bool{} // a file system that is mounted twice shows the same groups
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(source) < 3 || source[0] != "cgroup" && source[0] != "cgroup2" {
			continue
		}
		key := fields[2] + fields[3]
		if seen[key] {
			continue
		}
		seen[key] = true
		m := Mount{Dir: unescape(fields[4])}
		switch {
		case source[0] == "cgroup2":
			m.Kind = run.Cgroup2
		case slices.Contains(strings.Split(source[2], ","), "freezer"):
			m.Kind = run.Cgroup1
		}
		mounts = append(mounts, m)
	}
	return mounts, lines.Err()
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
