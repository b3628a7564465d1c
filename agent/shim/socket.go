package shim

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// listen opens a socket in the run directory for one user and root.
func listen(path string, uid int) (*net.UnixListener, error) {
	// Of a shim that never came as far as to claim the directory; no client has ever connected to it.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	err = os.Chmod(path, 0o600)
	if err == nil && uid != os.Geteuid() {
		err = os.Chown(path, uid, -1)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}

// acceptRetry is the pause after a connection that could not be accepted, for want
// of descriptors mostly.
const acceptRetry = 100 * time.Millisecond

// accept takes connections, and who is at their other end, until the listener is closed.
func accept(l *net.UnixListener, take func(*net.UnixConn, *unix.Ucred)) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			time.Sleep(acceptRetry)
			continue
		}
		cred, err := peer(c)
		if err != nil {
			_ = c.Close()
			continue
		}
		take(c, cred)
	}
}

// peer asks the kernel who is at the other end.
func peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("ask for peer: %w", err)
	}
	var cred *unix.Ucred
	var errCred error
	if err := raw.Control(func(fd uintptr) {
		cred, errCred = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("ask for peer: %w", err)
	}
	if errCred != nil {
		return nil, fmt.Errorf("ask for peer: %w", errCred)
	}
	return cred, nil
}

// lines reads lines of at most limit bytes until one cannot be had, or heed refuses one.
func lines(c net.Conn, limit int, heed func([]byte) bool) {
	s := bufio.NewScanner(c)
	s.Buffer(make([]byte, 0, min(limit, 4096)), limit)
	for s.Scan() {
		if !heed(s.Bytes()) {
			return
		}
	}
}
