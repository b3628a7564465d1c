package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
)

// What the processes of a dev cluster are known by: children by the first two in
// their environment, workers by the socket to their shim, and shims, which have
// an environment of their own, by the run directory in their command line.
const (
	dirVariable          = "BELLOWS_DEV"
	nodeVariable         = "BELLOWS_DEV_NODE"
	workerSocketVariable = "BELLOWS_WORKER_SOCKET"
)

const (
	// sweepPatience bounds how long killed processes may take to be gone.
	sweepPatience = 5 * time.Second
	sweepEvery    = 20 * time.Millisecond
)

// lockDev takes the data directory for this process. The lock goes with the
// process; the pid in the file is for people.
func lockDev(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(path)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another 'bellows dev' (pid %s) runs on %s: stop that one, or choose another --data-dir", bytes.TrimSpace(pid), dir)
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	return f, nil
}

// Process is a process of a dev cluster.
type Process struct {
	procfs.Proc

	node cluster.NodeID // empty: the coordinator
	// child: started by `bellows dev` itself, not by an agent.
	child bool
}

// Processes finds the processes of the dev cluster in dir, this one excepted.
// Processes that end meanwhile, and other users', are no concern.
func Processes(dir string) []Process {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	var found []Process
	for _, other := range all {
		if other.PID == os.Getpid() {
			continue
		}
		environ, envErr := os.ReadFile(fmt.Sprintf("/proc/%d/environ", other.PID)) // procfs reads 1 MiB of it at most
		args, argErr := other.CmdLine()
		if envErr != nil || argErr != nil {
			continue
		}
		if p, ok := markOf(strings.Split(string(environ), "\x00"), args, dir); ok {
			p.Proc = other
			found = append(found, p)
		}
	}
	return found
}

// markOf says whether a process with this environment and command line belongs
// to the dev cluster in dir, and to which of its nodes.
func markOf(environ, args []string, dir string) (p Process, ok bool) {
	if len(args) > 3 && args[1] == "shim" {
		p.node, ok = nodeOfRun(args[3], dir)
		return p, ok
	}
	for _, kv := range environ {
		switch name, value, _ := strings.Cut(kv, "="); name {
		case dirVariable:
			ok = ok || value == dir
		case nodeVariable:
			p.node = cluster.NodeID(value)
		case workerSocketVariable:
			if node, ours := nodeOfRun(value, dir); ours {
				return Process{node: node}, true
			}
		}
	}
	p.child = len(args) > 1 && (args[1] == "agent" || args[1] == "coordinator")
	return p, ok
}

// nodeOfRun returns the node that a path below the run directories belongs to.
func nodeOfRun(path, dir string) (cluster.NodeID, bool) {
	below, ours := strings.CutPrefix(path, runDir(dir)+"/")
	node, _, _ := strings.Cut(below, "/")
	return cluster.NodeID(node), ours
}

// runDir is where the nodes of a dev cluster have their run directories.
func runDir(dir string) string { return filepath.Join(dir, "run") }

// killMatching kills the processes that match, and those that they have started
// meanwhile, and returns how many there were once none is left.
func killMatching(dir string, match func(Process) bool) (killed int, err error) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(sweepPatience); ; time.Sleep(sweepEvery) {
		left := 0
		for _, p := range Processes(dir) {
			if !match(p) || ended(p) {
				continue
			}
			left++
			if !seen[p.PID] {
				seen[p.PID] = true
				killed++
			}
			// It may have ended since it was listed.
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if left == 0 {
			return killed, nil
		}
		if time.Now().After(deadline) {
			return killed, fmt.Errorf("%s of the cluster in %s cannot be killed", units.Count(left, "process"), dir)
		}
	}
}

// removeGroups takes away the cgroups of all runs of nodes that match, of which killMatching has left no
// process: their shims were killed, too, and their agents may never be started again.
func removeGroups(dir string, match func(cluster.NodeID) bool) error {
	var runs []string
	for _, node := range names(runDir(dir)) {
		if match(cluster.NodeID(node)) {
			for _, run := range names(filepath.Join(runDir(dir), node)) {
				runs = append(runs, filepath.Join(runDir(dir), node, run))
			}
		}
	}
	if len(runs) == 0 {
		return nil
	}
	for deadline := time.Now().Add(sweepPatience); ; time.Sleep(sweepEvery) { // a group is empty a moment after its last process has ended
		if err := sweep.RemoveGroups(runs...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// names are those of what lies in a folder, which need not be there.
func names(dir string) (list []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// ended reports whether a process has ended, also one that waits for its parent to ask how.
func ended(p Process) bool {
	stat, err := p.Stat()
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) // what cannot be read lives
	}
	return stat.State == "Z" || stat.State == "X"
}
