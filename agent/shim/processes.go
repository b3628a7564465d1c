package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// bind bounds how many processes and threads all workers of this node may have
// together, so that a job that forks without end fails instead of the node. It is
// kept where the kernel has a pids controller for us, and 0 is returned with the
// reason where it has none: unlike limits that a job asks for, this one is for the
// others' sake, and no reason to refuse it.
func (c *containment) bind(name, own string, o run.Order, member cluster.Member) (kept int, err error) {
	most := o.Processes * len(member.Devices)
	if most == 0 {
		return 0, nil
	}
	if c.kind == Cgroup2 && own != "" && offers(own, "pids") {
		if err = delegate(own, "pids", o.Scope); err == nil {
			err = set(c.path, "pids.max", strconv.Itoa(most))
		}
	} else {
		err = c.bindV1(name, most, member)
	}
	if err != nil {
		return 0, fmt.Errorf("limit the workers' processes: %w", err)
	}
	return most, nil
}

// bindV1 makes a group in the controller's own hierarchy, below which each worker has one to enter.
func (c *containment) bindV1(name string, most int, member cluster.Member) error {
	own, err := hierarchy{"cgroup", "pids"}.own()
	if err != nil {
		return err
	}
	top := filepath.Join(own, name)
	had := slices.Contains(c.ahead.tops, top) || c.limits != nil && slices.Contains(c.limits.tops, top) // of a controller in the same hierarchy
	if err = os.Mkdir(top, 0o755); err != nil && (!had || !errors.Is(err, os.ErrExist)) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	dirs := make([]string, member.Processes())
	err = set(top, "pids.max", strconv.Itoa(most))
	for local := range dirs {
		dirs[local] = filepath.Join(top, "worker-"+strconv.Itoa(local))
		if err == nil {
			err = os.Mkdir(dirs[local], 0o755)
		}
		if had && errors.Is(err, os.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		if !had {
			err = errors.Join(err, removeCgroup(top))
		}
		return err
	}
	if c.limits == nil {
		c.limits = &limits{workers: make([]bound, member.Processes())}
	}
	if !slices.Contains(c.limits.tops, top) {
		c.limits.tops = append(c.limits.tops, top)
	}
	for local, dir := range dirs {
		if b := &c.limits.workers[local]; !slices.Contains(b.enter, dir) {
			b.enter = append(b.enter, dir)
		}
	}
	return nil
}
