package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// notEnforced is what is said where workers may open each device.
func notEnforced(why string) string {
	return record.NotEnforced(" (" + cluster.Printable(why) + ")")
}

// KeepDevices keeps the workers from devices that are not theirs, and says how: by
// DeviceFilter, by DeviceController, or why not. Nothing to be kept from: "". A node
// that cannot runs jobs all the same, as CUDA_VISIBLE_DEVICES is heeded by all that
// mean no harm.
func (c *Containment) KeepDevices(d *run.DeviceFiles) string {
	if d == nil {
		return ""
	}
	if d.Unknown != "" {
		return notEnforced(d.Unknown)
	}
	var whys []error
	if c.Kind == run.Cgroup2 {
		err := filterDevices(c.Path, *d)
		if err == nil {
			return record.DeviceFilter
		}
		whys = append(whys, err)
	}
	// A group of v1 lies below our own and not beside: a service manager that sets the
	// rules of its units anew, as at a daemon-reload, does not reach into it.
	top, err := c.top(hierarchy{"cgroup", "devices"})
	if err == nil {
		err = deny(top, *d)
	}
	if err == nil {
		c.denied = v1Group{top, filepath.Dir(top)}
		return record.DeviceController
	}
	whys = append(whys, err)
	if c.Kind != run.Cgroup2 {
		// A group of v2 that is there for nothing else.
		if top, err = c.top(hierarchy{fstype: "cgroup2"}); err == nil {
			err = filterDevices(top, *d)
		}
		if err == nil {
			c.base = top
			return record.DeviceFilter
		}
		whys = append(whys, err)
	}
	return notEnforced(reasons(whys))
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

// tryFilter finds out whether groups beside dir, which is not there, can have filters.
func tryFilter(dir string, d run.DeviceFiles) error {
	if err := makeGroup(dir); err != nil {
		return err
	}
	return errors.Join(filterDevices(dir, d), cgroup(dir).Remove())
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
// as KeepDevices does, with containment of that kind.
func TryDevices(containment string) string {
	name := fmt.Sprintf("bellows-try-%d-%d", os.Getpid(), proc.Boottime())
	c, err := New(Config{Name: name, Kind: containment})
	if err != nil {
		return notEnforced(err.Error())
	}
	how := c.KeepDevices(&run.DeviceFiles{Major: unusedMajor})
	if err = c.Remove(); err != nil {
		return notEnforced(err.Error())
	}
	return how
}

// unusedMajor is a device number that Linux reserves for local and experimental use (devices.txt).
const unusedMajor = 60
