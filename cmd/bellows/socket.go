package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/internal/fault"
)

const (
	socketFlag     = "socket"
	socketVariable = "BELLOWS_SOCKET"
	systemSocket   = "/run/bellows/agent.sock"
	agentUnit      = "bellows-agent.service"
	socketName     = "agent.sock"
)

// agentOf makes the client for the agent that a command is to talk to.
func agentOf(cmd *cobra.Command) (*api.Client, string) {
	path := findSocket(cmd)
	client := api.NewClient(path)
	var once sync.Once
	client.Silence = func(d time.Duration) {
		once.Do(func() {
			fmt.Fprintf(os.Stderr, "etcd has not answered this node for %v: this is what it knew then\n", d.Round(time.Second))
		})
	}
	return client, path
}

// findSocket returns --socket, else $BELLOWS_SOCKET, else the first place where
// there is one, else where this user's would be.
func findSocket(cmd *cobra.Command) string {
	if path := chosenSocket(cmd); path != "" {
		return path
	}
	own := ownSocket()
	for _, path := range []string{systemSocket, own} {
		if _, err := os.Stat(path); err == nil && (path == systemSocket || trusted(filepath.Dir(path)) == nil) {
			return path
		}
	}
	if installed(agentUnit) {
		return systemSocket // it is down
	}
	return own
}

// installed reports whether this machine has a unit of systemd's.
func installed(unit string) bool {
	return slices.ContainsFunc([]string{"/etc/systemd/system", "/usr/lib/systemd/system"}, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, unit))
		return err == nil
	})
}

// addSocketFlag lets a command be told where the agent's socket is.
func addSocketFlag(f *pflag.FlagSet) {
	f.String(socketFlag, "", "the agent's socket (default $BELLOWS_SOCKET, else where the agent of this machine or user is)")
}

// chosenSocket returns what --socket or $BELLOWS_SOCKET say, or "".
func chosenSocket(cmd *cobra.Command) string {
	if path, err := cmd.Flags().GetString(socketFlag); err == nil && path != "" {
		return path
	}
	return os.Getenv(socketVariable)
}

// ownSocket is the place of an agent that runs as this user.
func ownSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "bellows", socketName)
	}
	return filepath.Join("/tmp", "bellows-"+strconv.Itoa(os.Getuid()), socketName)
}

// trusted reports why a folder is not this user's alone. Everybody may make
// folders in /tmp, also one with the name that ours would have.
func trusted(dir string) error {
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

// explain adds the remedy to the error of a call.
func explain(err error, socket string) error {
	if errors.Is(err, api.ErrNoAgent) && !errors.Is(err, syscall.EACCES) {
		if socket == systemSocket {
			return fault.WithRemedy(err, fmt.Sprintf("no agent answers at %s: 'systemctl start %s' as root starts it; 'journalctl -u %s' says what keeps it", socket, agentUnit, agentUnit))
		}
		return fault.WithRemedy(err, fmt.Sprintf("no agent answers at %s: start one with 'bellows dev' or set --socket/$%s", socket, socketVariable))
	}
	return err
}
