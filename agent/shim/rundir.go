package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/durable"
)

// The files of a run directory. order.json is the agent's, all others are the shim's.
const (
	orderFile     = "order.json"
	shimFile      = "shim.json" // the run record: written before any worker is executed
	reportFile    = "report.json"
	logFile       = "shim.log"
	controlSocket = "control.sock" // agent and shim
	workerSocket  = "worker.sock"  // shim and SDK
	pythonDir     = "python"
)

// maxSocketPath is what a Unix socket address holds, less its final zero.
const maxSocketPath = 107

// runRecord says where to find what a shim started, should the shim die.
type runRecord struct {
	Version int         `json:"version"`
	Shim    run.Process `json:"shim"`
	Cgroup  string      `json:"cgroup,omitempty"` // the directory of the containment; empty = weak
	// Containment is its kind; empty, with a Cgroup, is Cgroup2.
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
// be read. Its processes may live: Sweep it, unless its shim is an adopted run's,
// of whose directory it is a copy.
type Unreadable struct {
	Dir  string
	Shim run.Process // whom a sweep would end; zero if no file tells
	Why  error
}

// Scan lists the runs whose directories lie directly below root, in the order of
// their names, so that a restarted agent can adopt them, and those that cannot be
// adopted. An error means that nothing can be told of any; a root that does not
// exist is as good as an empty one. Runs whose directories are gone are for Lost.
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
		if !isRun(dir) {
			continue
		}
		if run, why := readRun(dir); why != nil {
			unreadable = append(unreadable, Unreadable{dir, lastShim(dir), why})
		} else {
			runs = append(runs, run)
		}
	}
	return runs, unreadable, nil
}

// Lost lists the paths directly below the roots that living processes name as theirs
// and where no run's files lie. An error names a process that does not show what it
// names: what is found without it is not all that there may be. What lies at such
// a path must not be removed: a process can name any. It takes a few seconds at most,
// whatever processes do.
func Lost(roots ...string) ([]string, error) {
	c, err := observed.census()
	if err != nil {
		return nil, fmt.Errorf("look for runs without a directory: %w", err)
	}
	err = c.unanswered()
	var dirs []string
	for _, root := range roots {
		place, errRoot := filepath.Abs(root)
		if err = errors.Join(err, errRoot); errRoot == nil {
			dirs = append(dirs, c.runsBelow(place)...)
		}
	}
	if err != nil {
		err = fmt.Errorf("look for runs without a directory: %w", err)
	}
	return slices.DeleteFunc(dirs, isRun), err
}

// lastShim is who the directory's files say hosts the run, as far as they can be read.
func lastShim(dir string) run.Process {
	rec, err := readRecord(dir)
	if err == nil {
		return rec.Shim
	}
	report, _ := ReadReport(dir)
	return report.Shim
}

// isRun reports whether a directory has any of the files that only runs have.
func isRun(dir string) bool {
	return slices.ContainsFunc([]string{orderFile, shimFile, reportFile, controlSocket}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return !errors.Is(err, os.ErrNotExist)
	})
}

func readRun(dir string) (run Run, err error) {
	run.Dir = dir
	if run.Order, err = readOrder(dir); err != nil {
		return run, err
	}
	rec, err := readRecord(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return run, err
	}
	run.Shim = rec.Shim
	return run, nil
}

// errUnreadable says that a file of a run is there, or its directory is not, and
// that nothing is to be learned from it.
var errUnreadable = errors.New("nothing can be learned from it")

// readFile reads one of a run's files, of which what tells the version: a file of
// a version that is yet to come, or of none, is not understood.
func readFile(dir, name string, v any, version *int) error {
	path := filepath.Join(dir, name)
	err := readJSON(path, v)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return err
	case err != nil:
		return errors.Join(err, errUnreadable)
	case *version < 1 || *version > run.ProtocolVersion:
		return fmt.Errorf("%s has version %d, this program understands 1 to %d: %w", path, *version, run.ProtocolVersion, errUnreadable)
	}
	return nil
}

// readOrder reads what the agent wanted of a run.
func readOrder(dir string) (o run.Order, err error) {
	err = readFile(dir, orderFile, &o, &o.Version)
	if err == nil && (o.World.Job == "" || o.World.Generation == 0 || o.LockDir == "") {
		err = fmt.Errorf("%s names no job, generation or lock_dir: %w", filepath.Join(dir, orderFile), errUnreadable)
	}
	if err != nil {
		return run.Order{}, fmt.Errorf("read order of run %s: %w", dir, err)
	}
	return o, nil
}

// readRecord reads which shim hosts a run; os.ErrNotExist: none has yet.
func readRecord(dir string) (rec runRecord, err error) {
	if err = readFile(dir, shimFile, &rec, &rec.Version); err != nil {
		return runRecord{}, fmt.Errorf("read run record of %s: %w", dir, err)
	}
	return rec, nil
}

// ReadReport returns the last report that the run's shim made durable, whether or
// not the shim still lives. os.ErrNotExist: it never wrote one.
func ReadReport(dir string) (r run.Report, err error) {
	if err = readFile(dir, reportFile, &r, &r.Version); err != nil {
		return run.Report{}, fmt.Errorf("read report of run %s: %w", dir, err)
	}
	return r, nil
}

// checkSocketPaths refuses directories with paths too long for their sockets.
func checkSocketPaths(dir string) error {
	longest := max(len(controlSocket), len(workerSocket))
	if room := maxSocketPath - longest - 1; len(dir) > room {
		return fmt.Errorf("run directory %s has a path of %d bytes, but the system's limit for the sockets in it leaves %d: "+
			"give the agent a shorter state directory", dir, len(dir), room)
	}
	return nil
}

// checkOrder finds what is missing in an order; all of it at once.
func checkOrder(o run.Order) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Version != run.ProtocolVersion {
		fault("version is %d, this shim understands %d: agent and shim come from one binary", o.Version, run.ProtocolVersion)
	}
	if m, _, ok := o.World.Member(o.Node); o.Planned() && (!ok || len(m.Devices) == 0) {
		fault("node %q has no devices in the world of %s generation %d", o.Node, o.World.Job, o.World.Generation)
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		fault("command is empty: name the program to run")
	}
	if o.EnvFile != "" && !filepath.IsAbs(o.EnvFile) {
		fault("env_file %q is not an absolute path", o.EnvFile)
	}
	for name, path := range map[string]string{
		"workdir": o.Workdir, "checkpoint_dir": o.Checkpoint, "log_dir": o.LogDir, "lock_dir": o.LockDir,
	} {
		if !filepath.IsAbs(path) && (name != "checkpoint_dir" || o.Planned()) {
			fault("%s %q is not an absolute path", name, path)
		}
	}
	if !slices.Contains([]string{"", Cgroup2, Cgroup1, Weak}, o.Containment) {
		fault("containment %q: use %s, %s or %s, or nothing for the strongest that there is", o.Containment, Cgroup2, Cgroup1, Weak)
	}
	faults = append(faults, checkEnv(o.Env)...)
	if slices.ContainsFunc(o.Command, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		fault("command %q has a zero byte", o.Command)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

func checkEnv(env map[string]string) (faults []error) {
	for key, value := range env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) {
			faults = append(faults, fmt.Errorf("env %q cannot be set: names have no '=', and neither names nor values a zero byte", key))
		}
	}
	return faults
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// writeDurable puts v at path, all or nothing: once it returns nil, v survives a
// power cut. Only the owner may read it: orders hold users' environments.
func writeDurable(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return durable.Write(path, append(b, '\n'), 0o600)
}
