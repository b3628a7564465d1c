package sweep

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
)

// request asks for devices' locks as a shim does.
func request(dir, run string, devices ...cluster.DeviceID) devicelock.Request {
	r := devicelock.Request{Dir: dir, Devices: devices, Claim: devicelock.Claim{Job: "j", Generation: 1, Run: run}, Left: Left, Waiting: func(string) {}}
	if rec, err := rundir.ReadRecord(run); err == nil {
		r.Claim.Record = &rec
	}
	return r
}

// A lock file of which nothing can be read any more keeps no device, nor does one of
// a run from before the machine was started anew.
func TestLockFilesThatSayNothingAreTaken(t *testing.T) {
	for name, says := range map[string]string{
		"half a word":       `{"job":"j","gener`,
		"an earlier boot":   `{"job":"j","generation":1,"run":"/r","shim":1,"record":{"version":1,"shim":{"pid":1,"start_time":1,"boot_id":"x"}}}`,
		"of an old version": `{"job":"j","generation":1,"run":"/no/such/run","shim":1}`,
	} {
		dir := t.TempDir()
		agenttest.Write(t, filepath.Join(dir, "d0.lock"), says, 0o600)
		l, err := devicelock.Take(t.Context(), request(dir, t.TempDir(), "d0"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err = l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestALockThatIsNeverFree(t *testing.T) {
	t.Parallel()
	dir, run := t.TempDir(), t.TempDir()
	agenttest.Write(t, filepath.Join(dir, "SIM-1.lock"), `{"job":"other-zzzzzz","generation":7,"run":"/elsewhere","shim":4242}`, 0o644)
	l, err := os.Open(filepath.Join(dir, "SIM-1.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err = unix.Flock(int(l.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = devicelock.Take(ctx, request(dir, run, "SIM-0", "SIM-1", "SIM-2"))
	if err == nil || !strings.Contains(err.Error(), "lock device SIM-1: held by other-zzzzzz generation 7") || !strings.Contains(err.Error(), "cordon the node") {
		t.Errorf("Take: %v", err)
	}
	// SIM-0 was taken before. A child that another test is just starting may have
	// it too, until its exec.
	agenttest.Eventually(t, "the other locks are free again", func() bool {
		held, err := devicelock.Of(dir, []cluster.DeviceID{"SIM-0", "SIM-2"}, run).GiveBack()
		return err == nil && len(held) == 0
	})
}

// Many take the same device at once while locks leak and are cleared: never do two have it.
func TestAClearedLockIsNeverTakenTwice(t *testing.T) {
	t.Parallel()
	const takers, turns = 4, 4
	locksDir := filepath.Join(t.TempDir(), "locks")
	var have, most, cleared atomic.Int32
	var all sync.WaitGroup
	for i := range takers {
		all.Go(func() {
			for turn := range turns {
				dir, leaks := t.TempDir(), (i+turn)%2 == 0
				shim := exec.Command("/bin/sleep", "1000")
				if err := shim.Start(); err != nil {
					t.Error(err)
					return
				}
				end := func() { _ = shim.Process.Kill(); _ = shim.Wait() }
				process, err := proc.Identify(shim.Process.Pid)
				if err == nil {
					err = durable.WriteJSON(filepath.Join(dir, rundir.ShimFile), rundir.Record{Version: run.ProtocolVersion, Shim: process})
				}
				if err != nil {
					t.Error(err)
				}
				var l *devicelock.Locks
				for l == nil { // one that has no luck waits for all others
					if l, err = devicelock.Take(t.Context(), request(locksDir, dir, "d0")); err != nil && !strings.Contains(err.Error(), "held by") {
						t.Error(err)
						end()
						return
					}
				}
				now := have.Add(1)
				for was := most.Load(); was < now; was = most.Load() {
					most.CompareAndSwap(was, now)
				}
				time.Sleep(time.Millisecond)
				if leaks {
					fd, errDup := unix.FcntlInt(l.Files[0].Fd(), unix.F_DUPFD_CLOEXEC, 3)
					if errDup != nil {
						t.Error(errDup)
					}
					defer unix.Close(fd) //nolint:errcheck // nothing was written to it
					cleared.Add(1)
				}
				have.Add(-1)
				if err = l.Close(); err != nil {
					t.Error(err)
				}
				end()
			}
		})
	}
	all.Wait()
	if most.Load() != 1 || cleared.Load() != takers*turns/2 {
		t.Errorf("%d had it at once, %d leaked", most.Load(), cleared.Load())
	}
}
