package shim

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
