package warm

import (
	"bytes"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// maxPrinted bounds what a process may print before it is parked: it stays in a pipe until its rank is known.
const maxPrinted = 256 << 10

// outputPipe is where a process prints that has no rank yet: the read end, which does not block, and the other.
func outputPipe() (out *os.File, in int, err error) {
	var p [2]int
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, maxPrinted) //nolint:gosec // a descriptor; else it has 64 KiB
	if err = unix.SetNonblock(p[0], true); err != nil {
		return nil, -1, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
	}
	return os.NewFile(uintptr(p[0]), "output pipe"), p[1], nil
}

// waiting is how many bytes a pipe holds.
func waiting(pipe *os.File) (n int) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if holds, errAsk := unix.IoctlGetInt(int(fd), unix.TIOCINQ); errAsk == nil {
			n = holds
		}
	})
	return n
}

// capacity is how many bytes a pipe has room for.
func capacity(pipe *os.File) int {
	n := 64 << 10 // the kernel's own choice
	raw, err := pipe.SyscallConn()
	if err != nil {
		return n
	}
	_ = raw.Control(func(fd uintptr) {
		if size, errAsk := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); errAsk == nil {
			n = size
		}
	})
	return n
}

// lastLine is the last line of a text, for people.
func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return cluster.Printable(string(lines[len(lines)-1]))
}

// lastPrinted is the last line that a process has printed.
func lastPrinted(out *os.File) string {
	b := make([]byte, maxPrinted)
	if err := out.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return ""
	}
	n, _ := out.Read(b)
	return lastLine(b[:n])
}
