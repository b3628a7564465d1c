package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// notEnforced is what is said where workers may open each device.
func notEnforced(why string) string {
	return record.NotEnforced(" (" + printable(why) + ")")
}

// keepDevices keeps the workers from devices that are not theirs, and says how: by
// DeviceFilter, by DeviceController, or why not. Nothing to be kept from: "". A node
// that cannot runs jobs all the same, as CUDA_VISIBLE_DEVICES is heeded by all that
// mean no harm.
func (c *containment) keepDevices(name string, d *run.DeviceFiles) string {
	if d == nil {
		return ""
	}
	if d.Unknown != "" {
		return notEnforced(d.Unknown)
	}
	if c.kind == Cgroup2 {
		err := filterDevices(c.path, *d)
		if err == nil {
			return record.DeviceFilter
		}
		return c.keepApart(name, *d, err)
	}
	return c.keepApart(name, *d, nil)
}

// keepApart does so by a group that is there for nothing else.
func (c *containment) keepApart(name string, d run.DeviceFiles, why error) string {
	g, err := denyDevices(name, d)
	if err == nil {
		c.devices, c.devicesPath = g, string(g)
		return record.DeviceController
	}
	whys := []error{why, err}
	if c.kind == Cgroup2 {
		return notEnforced(reasons(whys))
	}
	apart, err := newFilter(name, d)
	if err != nil {
		return notEnforced(reasons(append(whys, err)))
	}
	c.devices, c.devicesPath = apart, string(apart)
	return record.DeviceFilter
}

// reasons puts what was tried in vain into one line.
func reasons(all []error) string {
	var said []string
	for _, err := range all {
		if err != nil && !slices.Contains(said, err.Error()) {
			said = append(said, err.Error())
		}
	}
	return strings.Join(said, "; ")
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

// newFilter makes a v2 group for workers that are contained by another kind.
func newFilter(name string, d run.DeviceFiles) (cgroup, error) {
	parent, err := hierarchy{fstype: "cgroup2"}.own()
	if err != nil {
		return "", err
	}
	g := cgroup(filepath.Join(parent, name))
	if err = makeGroup(string(g)); err != nil && !errors.Is(err, os.ErrExist) { // for what runs ahead
		return "", err
	}
	if err = filterDevices(string(g), d); err != nil {
		return "", errors.Join(err, g.remove())
	}
	return g, nil
}

// tryFilter finds out whether groups beside dir, which is not there, can have filters.
func tryFilter(dir string, d run.DeviceFiles) error {
	if err := makeGroup(dir); err != nil {
		return err
	}
	return errors.Join(filterDevices(dir, d), cgroup(dir).remove())
}

// denyDevices makes a group in the v1 hierarchy of devices, to be entered as any v1
// group is. It lies below our own and not beside: a service manager that sets the
// rules of its units anew, as at a daemon-reload, does not reach into it.
func denyDevices(name string, d run.DeviceFiles) (freezer, error) {
	own, err := hierarchy{"cgroup", "devices"}.own()
	if err != nil {
		return "", err
	}
	g := freezer(filepath.Join(own, name))
	if err = makeGroup(string(g)); err != nil && !errors.Is(err, os.ErrExist) { // for a limit of the same hierarchy
		return "", err
	}
	if err = deny(string(g), d); err != nil {
		return "", errors.Join(err, g.remove())
	}
	return g, nil
}

// deny gives a group of v1 its rules.
func deny(dir string, d run.DeviceFiles) error {
	for minor := range d.Last + 1 {
		if slices.Contains(d.Granted, minor) {
			continue
		}
		if err := set(dir, "devices.deny", fmt.Sprintf("c %d:%d rwm", d.Major, minor)); err != nil {
			return err
		}
	}
	return denied(dir, d)
}

// denied checks that the rules took effect. Where our own group has a list of what
// is allowed, as in containers, the kernel takes a single device off it only if the
// list names it singly, and says nothing.
func denied(dir string, d run.DeviceFiles) error {
	b, err := os.ReadFile(filepath.Join(dir, "devices.list"))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(b)) == "a *:* rwm" {
		return nil // all but what was denied
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "b" {
			continue
		}
		major, minor, _ := strings.Cut(f[1], ":")
		if major != "*" && major != strconv.FormatUint(uint64(d.Major), 10) {
			continue
		}
		n, err := strconv.ParseUint(minor, 10, 32)
		if err != nil || uint32(n) <= d.Last && !slices.Contains(d.Granted, uint32(n)) {
			return fmt.Errorf("the agent's own cgroup allows devices by the rule %q, of which none can be taken away", strings.TrimSpace(line))
		}
	}
	return nil
}

// TryDevices says how this node would keep workers from devices that are not theirs,
// as keepDevices does, with containment of that kind.
func TryDevices(containment string) string {
	name := fmt.Sprintf("bellows-try-%d-%d", os.Getpid(), Boottime())
	c, err := newGroup(name, containment)
	if err != nil {
		return notEnforced(err.Error())
	}
	how := c.keepDevices(name, &run.DeviceFiles{Major: unusedMajor})
	if err = c.remove(); err != nil {
		return notEnforced(err.Error())
	}
	return how
}

// unusedMajor is a device number that Linux reserves for local and experimental use (devices.txt).
const unusedMajor = 60
