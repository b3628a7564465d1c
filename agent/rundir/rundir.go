package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/durable"
)

// The files of a run directory. order.json is the agent's, all others are the shim's.
const (
	OrderFile     = "order.json"
	ShimFile      = "shim.json" // the run record: written before any worker is executed
	ReportFile    = "report.json"
	LogFile       = "shim.log"
	ControlSocket = "control.sock" // agent and shim
)

// maxSocketPath is what a Unix socket address holds, less its final zero.
const maxSocketPath = 107

// Record says where to find what a shim started, should the shim die.
type Record struct {
	Version int         `json:"version"`
	Shim    run.Process `json:"shim"`
	Cgroup  string      `json:"cgroup,omitempty"` // the directory of the containment; empty = weak
	// Containment is its kind; empty, with a Cgroup, is run.Cgroup2.
	Containment string `json:"containment,omitempty"`
	// Limits are the directories of more cgroups that hold the workers, also of the one
	// that keeps them from others' devices.
	Limits []string `json:"limits,omitempty"`
	// Owner is the uid of the workers. Shims of earlier versions have written none.
	Owner *uint32 `json:"owner_uid,omitempty"`
}

// Run is one run directory, as a scan found it.
type Run struct {
	Dir   string
	Order run.Order
	Shim  run.Process // zero if the shim never came so far as to say who it is
}

// Unreadable is a run directory that no agent can adopt, because what is in it cannot
// be read. Its processes may live: sweep.Sweep it, unless its shim is an adopted run's,
// of whose directory it is a copy.
type Unreadable struct {
	Dir  string
	Shim run.Process // whom a sweep would end; zero if no file tells
	Why  error
}

// Scan lists the runs whose directories lie directly below root, in the order of
// their names, so that a restarted agent can adopt them, and those that cannot be
// adopted. An error means that nothing can be told of any; a root that does not
// exist is as good as an empty one. Runs whose directories are gone are for sweep.Lost.
func Scan(root string) (runs []Run, unreadable []Unreadable, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(root, e.Name())
		if !IsRun(dir) {
			continue
		}
		if run, why := Read(dir); why != nil {
			unreadable = append(unreadable, Unreadable{dir, lastShim(dir), why})
		} else {
			runs = append(runs, run)
		}
	}
	return runs, unreadable, nil
}

// lastShim is who the directory's files say hosts the run, as far as they can be read.
func lastShim(dir string) run.Process {
	rec, err := ReadRecord(dir)
	if err == nil {
		return rec.Shim
	}
	report, _ := ReadReport(dir)
	return report.Shim
}

// IsRun reports whether a directory has any of the files that only runs have.
func IsRun(dir string) bool {
	return slices.ContainsFunc([]string{OrderFile, ShimFile, ReportFile, ControlSocket}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return !errors.Is(err, os.ErrNotExist)
	})
}

// Read reads what a run directory says of its run.
func Read(dir string) (run Run, err error) {
	run.Dir = dir
	if run.Order, err = ReadOrder(dir); err != nil {
		return run, err
	}
	rec, err := ReadRecord(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return run, err
	}
	run.Shim = rec.Shim
	return run, nil
}

// ErrUnreadable says that a file of a run is there, or its directory is not, and
// that nothing is to be learned from it.
var ErrUnreadable = errors.New("nothing can be learned from it")

// readFile reads one of a run's files, of which what tells the version: a file of
// a version that is yet to come, or of none, is not understood.
func readFile(dir, name string, v any, version *int) error {
	path := filepath.Join(dir, name)
	err := durable.ReadJSON(path, v)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return err
	case err != nil:
		return errors.Join(err, ErrUnreadable)
	case *version < 1 || *version > run.ProtocolVersion:
		return fmt.Errorf("%s has version %d, this program understands 1 to %d: %w", path, *version, run.ProtocolVersion, ErrUnreadable)
	}
	return nil
}

// ReadOrder reads what the agent wanted of a run.
func ReadOrder(dir string) (o run.Order, err error) {
	err = readFile(dir, OrderFile, &o, &o.Version)
	if err == nil && (o.World.Job == "" || o.World.Generation == 0 || o.LockDir == "") {
		err = fmt.Errorf("%s names no job, generation or lock_dir: %w", filepath.Join(dir, OrderFile), ErrUnreadable)
	}
	if err != nil {
		return run.Order{}, fmt.Errorf("read order of run %s: %w", dir, err)
	}
	return o, nil
}

// ReadRecord reads which shim hosts a run; os.ErrNotExist: none has yet.
func ReadRecord(dir string) (rec Record, err error) {
	if err = readFile(dir, ShimFile, &rec, &rec.Version); err != nil {
		return Record{}, fmt.Errorf("read run record of %s: %w", dir, err)
	}
	return rec, nil
}

// ReadReport returns the last report that the run's shim made durable, whether or
// not the shim still lives. os.ErrNotExist: it never wrote one.
func ReadReport(dir string) (r run.Report, err error) {
	if err = readFile(dir, ReportFile, &r, &r.Version); err != nil {
		return run.Report{}, fmt.Errorf("read report of run %s: %w", dir, err)
	}
	return r, nil
}

// CheckSocketPaths refuses directories with paths too long for their sockets.
func CheckSocketPaths(dir string) error {
	longest := max(len(ControlSocket), len(run.WorkerSocket))
	if room := maxSocketPath - longest - 1; len(dir) > room {
		return fmt.Errorf("run directory %s has a path of %d bytes, but the system's limit for the sockets in it leaves %d: "+
			"give the agent a shorter state directory", dir, len(dir), room)
	}
	return nil
}

// ReadAnyRecord is ReadRecord whatever version has written the record: for who has to reach the processes of a run, and
// finds more of them with a record that is understood in part.
func ReadAnyRecord(dir string) (rec Record, err error) {
	err = durable.ReadJSON(filepath.Join(dir, ShimFile), &rec)
	return rec, err
}
