package socketpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	// Flag names the flag that says where the socket is.
	Flag = "socket"
	// Variable names the environment variable that says it where the flag does not.
	Variable = "BELLOWS_SOCKET"
	// System is the socket of an agent that runs as a service of the system.
	System = "/run/bellows/agent.sock"
	// Unit is that service.
	Unit = "bellows-agent.service"

	socketName = "agent.sock"
)

// Own is the place of an agent that runs as this user.
func Own() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "bellows", socketName)
	}
	return filepath.Join("/tmp", "bellows-"+strconv.Itoa(os.Getuid()), socketName)
}

// Trusted reports why a folder is not this user's alone. Every user may make
// folders in /tmp, also one with the name that this user's would have.
func Trusted(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only you can write to: remove it, or set --socket", dir)
	}
	return nil
}
