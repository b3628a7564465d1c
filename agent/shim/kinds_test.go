package shim

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// kinds are the containments with a group; both are to do the same.
func kinds() []string { return []string{run.Cgroup2, run.Cgroup1} }

// needsKind is for tests that need a kernel, mounts and rights that cannot be had everywhere.
func needsKind(t *testing.T, kind string) {
	t.Helper()
	if err := tried(t, kind, func(*contain.Containment) error { return nil }); err != nil {
		t.Skipf("this machine has no %s for this user, so there is nothing to test: %v", kind, err)
	}
}

// needsLimits is for tests that need the controllers, and the right to use them.
func needsLimits(t *testing.T) {
	t.Helper()
	err := tried(t, "", func(c *contain.Containment) error {
		return c.Limit(cluster.Limits{MemoryBytes: 64 << 20, CPUs: 1}, 0, oneDevice)
	})
	if err != nil {
		t.Skipf("this machine keeps no limits for this user, so there is nothing to test: %v", err)
	}
}

// canBind reports whether this machine's kernel has a pids controller for this user.
func canBind(t *testing.T) bool {
	t.Helper()
	return tried(t, "", func(c *contain.Containment) error {
		if err := c.Limit(cluster.Limits{}, 100, oneDevice); err != nil {
			return err
		}
		return c.Unbound
	}) == nil
}

var oneDevice = cluster.Member{Node: "n1", Devices: []cluster.DeviceID{"a"}}

var testGroups atomic.Int32

// tried makes a containment of a kind, does something with it, and removes it.
func tried(t *testing.T, kind string, do func(*contain.Containment) error) error {
	t.Helper()
	c, err := contain.New(contain.Config{Name: "bellows-test-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(testGroups.Add(1))), Kind: kind})
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	}()
	return do(c)
}
