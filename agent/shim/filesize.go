package shim

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// limitFiles sets how large files of a process may grow, and returns how large that was. Where this process is root
// without CAP_SYS_RESOURCE, as in most containers, the kernel lets only the process's own user do that.
func limitFiles(pid int, id identity, to *unix.Rlimit) (was unix.Rlimit, err error) {
	if err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, to, &was); errors.Is(err, unix.EPERM) && id.cred != nil {
		err = id.do(func() error { return unix.Prlimit(pid, unix.RLIMIT_FSIZE, to, &was) })
	}
	return was, err
}

// do runs f on a thread whose real user and group are the owner's. Its effective ones, which files and other
// processes are opened by, stay as they are.
func (id identity) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(uid, gid int) error {
		// The kernel's own calls are for this thread, those of package syscall for all.
		const keep = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), keep, keep); errno != 0 {
			return errno
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), keep, keep); errno != 0 {
			return errno
		}
		return nil
	}
	uid, gid := unix.Getuid(), unix.Getgid()
	err := set(int(id.cred.Uid), int(id.cred.Gid))
	if err == nil {
		err = f()
	}
	if errBack := set(uid, gid); errBack != nil { // the thread is of no use any more, and Go would use it
		panic(fmt.Sprintf("shim: take the real user back: %v", errBack))
	}
	return err
}
