package shim

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// passOn writes to every descriptor that it was given besides its standard streams, and
// sends them all to the socket beside its workdir. It says how many it could do so with.
const passOn = `
import array, os, socket
fds = []
for name in os.listdir("/proc/self/fd"):
    fd = int(name)
    try:
        if fd > 2 and os.readlink("/proc/self/fd/" + name).find("/proc/") < 0: fds.append(fd)
    except OSError: pass
wrote = 0
for fd in fds:
    try: wrote += os.write(fd, b"x" * 4096) > 0
    except OSError: pass
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect("../keeper")
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
open("passed.tmp", "w").write("%d %d\n" % (len(fds), wrote))
os.rename("passed.tmp", "passed")
`

// keep accepts one connection and keeps every descriptor that comes over it, as an
// accomplice of a worker would, outside of every containment.
func (f *fixture) keep() {
	f.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(f.root, "keeper"), Net: "unix"})
	if err != nil {
		f.t.Fatal(err)
	}
	if err = os.Chmod(filepath.Join(f.root, "keeper"), 0o777); err != nil {
		f.t.Fatal(err)
	}
	kept := make(chan []int, 1)
	go func() {
		var fds []int
		if c, err := l.AcceptUnix(); err == nil {
			oob := make([]byte, 4096)
			if _, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), oob); err == nil {
				messages, _ := unix.ParseSocketControlMessage(oob[:n])
				for i := range messages {
					more, _ := unix.ParseUnixRights(&messages[i])
					fds = append(fds, more...)
				}
			}
			_ = c.Close()
		}
		kept <- fds
	}()
	f.t.Cleanup(func() {
		_ = l.Close()
		for _, fd := range <-kept {
			_ = unix.Close(fd)
		}
	})
}

// A worker may give away whatever it has, and write to it: a lock of its device must not be among that.
func TestNoLockLeavesWithAWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "").python(passOn).giveTo(1, 1)
	f.order.Owner = cluster.Owner{UID: 1, GID: 1, User: "daemon"}
	f.keep()
	f.start()
	if got := f.awaitFile("passed"); got != "0 0\n" {
		t.Errorf("descriptors passed on, and written to: %s", got)
	}
	f.stopped()
	f.retire()
}

// stealLock takes a copy of the shim's lock of a device, as a worker of an earlier version had one.
func (f *fixture) stealLock(device cluster.DeviceID) *os.File {
	f.t.Helper()
	agenttest.NeedsRoot(f.t)
	pidfd, err := unix.PidfdOpen(f.shim.PID, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer unix.Close(pidfd) //nolint:errcheck // nothing was written to it
	dir := "/proc/" + strconv.Itoa(f.shim.PID) + "/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(dir, name.Name())); err != nil || to != devicelock.Path(f.order.LockDir, device) {
			continue
		}
		n, err := strconv.Atoi(name.Name())
		if err != nil {
			f.t.Fatal(err)
		}
		fd, err := unix.PidfdGetfd(pidfd, n, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "lock")
	}
	f.t.Fatal("the shim has no lock of " + device)
	return nil
}

// strange starts a process of another user's, in no containment, that has the file open and is no part of the run.
func (f *fixture) strange(file *os.File) *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	if err := errors.Join(cmd.Start(), file.Close()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// next is another run, of the same devices.
func (f *fixture) next() *fixture {
	f.t.Helper()
	g := newFixture(f.t, len(f.order.World.Members[0].Devices), "exit 0")
	g.order.LockDir = f.order.LockDir
	return g
}

// A lock that is open somewhere when nothing of its run lives any more keeps no device.
func TestALockThatOutlivesItsRunIsClearedAndNamed(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	for name, end := range map[string]func(f *fixture){
		"stopped": func(f *fixture) {
			f.push(run.Wish{Kill: "test", Retire: true})
			f.stopped()
			f.gone("the shim", f.shim)
		},
		"swept": func(f *fixture) {
			f.killShim()
			if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
				f.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, "sleep 1000").start()
			f.started()
			thief := f.strange(f.stealLock("SIM-1"))
			end(f)
			other := f.next().start()
			if r := other.stopped(); r.Failed != nil || !r.Stopped.Finished {
				t.Errorf("the next run: %+v, %+v", r.Failed, r.Stopped)
			}
			other.retire()
			named, err := devicelock.OldLocks(f.order.LockDir)
			if err != nil || len(named) != 1 {
				t.Fatalf("old locks: %+v, %v", named, err)
			}
			o := named[0]
			if o.Device != "SIM-1" || o.Job != f.order.World.Job || o.Generation != 3 || len(o.Holders) != 1 ||
				o.Holders[0].PID != thief.Process.Pid || o.Holders[0].UID != ordinary || o.Holders[0].Command != "sleep" {
				t.Errorf("named %+v, want process %d", o, thief.Process.Pid)
			}
			_ = thief.Process.Kill()
			_ = thief.Wait()
			if named, err = devicelock.OldLocks(f.order.LockDir); err != nil || len(named) != 0 {
				t.Errorf("after its end: %+v, %v", named, err)
			}
			if left, _ := filepath.Glob(filepath.Join(f.order.LockDir, "*"+devicelock.OldSuffix)); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// On its way over a socket a descriptor is open in no process.
func TestALockOnItsWayIsClearedToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 1000").start()
	f.started()
	lock := f.stealLock("SIM-0")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1]) //nolint:errcheck // what is in it goes with it
	if err = errors.Join(unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(lock.Fd())), nil, 0), lock.Close(), unix.Close(pair[0])); err != nil {
		t.Fatal(err)
	}
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
	if named, err := devicelock.OldLocks(f.order.LockDir); err != nil || len(named) != 1 || len(named[0].Holders) != 0 {
		t.Errorf("old locks: %+v, %v", named, err)
	}
}

// What has outlived its shim keeps the device from others until it is swept, also
// if it has closed all that it inherited.
func TestOrphansKeepTheirDevice(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(escape + "while True: time.sleep(1)").start()
	r := f.started()
	p := f.escaped()
	f.killShim()
	f.gone("the worker", f.worker(r, 0))
	other := f.next().start()
	w := other.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "held by") || r.Workers != nil })
	for _, want := range []string{"SIM-0", string(f.order.World.Job), "pid " + strconv.Itoa(p.PID)} {
		if !strings.Contains(w.Waiting, want) {
			t.Errorf("waiting for %q, which does not say %q", w.Waiting, want)
		}
	}
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Fatal(err)
	}
	if r := other.stopped(); r.Failed != nil {
		t.Errorf("after the sweep: %+v", r.Failed)
	}
	other.retire()
	f.nothingLeft()
}

// Kernels that know no close_range keep what was inherited from workers, too.
func TestInheritedFilesAreKeptOneByOne(t *testing.T) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	keepEach()
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %d, %v", flags, err)
	}
}
