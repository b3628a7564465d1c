package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxSocketPath is the longest path that the kernel takes for a unix socket, without its final NUL.
const maxSocketPath = 107

// Listen opens the agent's socket. A socket that nothing answers on is a
// leftover and is replaced; one that answers is refused. Everybody may connect:
// who they are, the kernel says. The folder is made if it is missing: for
// the agent's user alone, unless that is root. Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: a socket's path has at most %d bytes, this one %d; choose a shorter --socket",
			path, maxSocketPath, len(path))
	}
	perm := os.FileMode(0o700)
	if ownUID() == 0 {
		perm = 0o755 // root's agent serves every user
	}
	if err := os.MkdirAll(filepath.Dir(path), perm); err != nil {
		return nil, fmt.Errorf("make folder of socket: %w", err)
	}
	if err := removeLeftover(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open socket to everybody: %w", err), ln.Close())
	}
	return ln, nil
}

// removeLeftover removes a socket that nothing answers on.
func removeLeftover(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something is there that is no socket: remove it, or choose another --socket")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return errors.New("another agent answers there: stop it, or choose another --socket")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
