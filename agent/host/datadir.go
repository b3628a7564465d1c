package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// dataFormat is the version of what lies in a data directory.
const dataFormat = 1

const (
	identityFile = "agent.json"
	leaseFile    = "lease.json"
	runDirsFile  = "runs.json"
	lockFile     = "lock"
	logsDir      = "logs"
	runsDir      = "run"     // where nothing else is configured
	learnedDir   = "learned" // what shims have learnt of jobs' starts
)

// ErrDataDirInUse means that another agent has the data directory.
var ErrDataDirInUse = errors.New("another agent is using it: stop that one, or choose another directory")

// identity says whose a data directory is. Once written, it stays.
type identity struct {
	Format  int            `json:"format"`
	Node    cluster.NodeID `json:"node"`
	Cluster string         `json:"cluster,omitempty"` // empty until the cluster was first reached
}

// dataDir is what an agent keeps on disk for its successor. It is this
// process's alone as long as it is open.
type dataDir struct {
	path string
	lock *os.File
	id   identity
	// roots are where runs are and have been.
	roots keptRunDirs
}

func openDataDir(path string, node cluster.NodeID, clusterName string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	d := &dataDir{path: path, lock: lock}
	err = d.claim(node, clusterName)
	if err == nil {
		err = closeLogs(filepath.Join(path, logsDir))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", path, err), d.close())
	}
	return d, nil
}

// closeLogs makes the logs readable for the agent's own user only: what a job prints
// is its owner's, who reads it through the agent. A directory that an earlier
// version left open to all is closed, and with it all that lies in it.
func closeLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of logs: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close folder of logs: %w", err)
	}
	return nil
}

func (d *dataDir) claim(node cluster.NodeID, clusterName string) error {
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return ErrDataDirInUse
		}
		return err
	}
	switch err := readJSON(filepath.Join(d.path, identityFile), &d.id); {
	case errors.Is(err, os.ErrNotExist):
		d.id = identity{Format: dataFormat, Node: node, Cluster: clusterName}
		return d.write(identityFile, d.id)
	case err != nil:
		return err
	case d.id.Format != dataFormat:
		return store.Unfit(fmt.Errorf("it has format %d, this version of Bellows reads format %d: run the version that wrote it, or choose another directory",
			d.id.Format, dataFormat))
	case d.id.Node != node:
		return store.Unfit(fmt.Errorf("it belongs to node %q, not %q: start this agent with --node %s, or choose another directory", d.id.Node, node, d.id.Node))
	case clusterName != "" && d.id.Cluster != "" && d.id.Cluster != clusterName:
		return store.Unfit(fmt.Errorf("it belongs to cluster %q, not %q: choose another directory, or that cluster", d.id.Cluster, clusterName))
	}
	return nil
}

// joined keeps which cluster this directory belongs to from now on.
func (d *dataDir) joined(clusterName string) error {
	if d.id.Cluster == clusterName {
		return nil
	}
	d.id.Cluster = clusterName
	return d.write(identityFile, d.id)
}

// keptLease is the lease that keeps the node in the cluster, for an agent's successor.
type keptLease struct {
	ID int64 `json:"id,string"`
}

// lease returns the lease kept here, 0 if there is none.
func (d *dataDir) lease() (int64, error) {
	var l keptLease
	err := readJSON(filepath.Join(d.path, leaseFile), &l)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return l.ID, err
}

func (d *dataDir) keepLease(id int64) error { return d.write(leaseFile, keptLease{ID: id}) }

func (d *dataDir) dropLease() error {
	err := os.Remove(filepath.Join(d.path, leaseFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// keptRunDirs are the directories below which agents of this node have kept runs.
type keptRunDirs struct {
	Dirs []string `json:"dirs"`
}

// keepRunDir notes, before any run is started there, that runs lie below dir: a
// successor that is told another directory still finds them.
func (d *dataDir) keepRunDir(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := readJSON(filepath.Join(d.path, runDirsFile), &d.roots); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("find where runs are: %w: it is in JSON, and can be removed once none of this node's workers lives", err)
	}
	if slices.Contains(d.roots.Dirs, dir) {
		return nil
	}
	d.roots.Dirs = append(d.roots.Dirs, dir)
	if err := d.write(runDirsFile, d.roots); precheck.FailureOf(err) != record.NoSpace {
		return err
	}
	return nil // a full disk is no reason to leave workers alone; the next agent writes it
}

// runDirs are all of them.
func (d *dataDir) runDirs() []string { return d.roots.Dirs }

// close lets go of the directory. It unlocks by itself: a process that another
// goroutine is just starting has a copy of each file until it executes its
// program, and would keep the lock for as long.
func (d *dataDir) close() error {
	return errors.Join(unix.Flock(int(d.lock.Fd()), unix.LOCK_UN), d.lock.Close())
}

// write puts v into a file, all of it or nothing, durable.
func (d *dataDir) write(name string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(fmt.Sprintf("host: encode %+v: %v", v, err))
	}
	return durable.Write(filepath.Join(d.path, name), append(text, '\n'), 0o600)
}

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
