package warm

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/owner"
)

// limitFiles sets how large files of a process may grow, and returns how large that was. Where this process is root
// without CAP_SYS_RESOURCE, as in most containers, the kernel lets only the process's own user do that.
func limitFiles(pid int, id owner.Identity, to *unix.Rlimit) (was unix.Rlimit, err error) {
	if err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, to, &was); errors.Is(err, unix.EPERM) && id.Cred != nil {
		err = id.Do(func() error { return unix.Prlimit(pid, unix.RLIMIT_FSIZE, to, &was) })
	}
	return was, err
}
