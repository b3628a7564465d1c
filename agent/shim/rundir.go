package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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
	Version int     `json:"version"`
	Shim    Process `json:"shim"`
	Cgroup  string  `json:"cgroup,omitempty"` // the directory of the containment; empty = weak
	// Containment is its kind; empty, with a Cgroup, is Cgroup2.
	Containment string `json:"containment,omitempty"`
	// Limits are the directories of more cgroups that hold the workers.
	Limits []string `json:"limits,omitempty"`
}

// Run is one run directory, as a scan found it.
type Run struct {
	Dir   string
	Order Order
	Shim  Process // zero if the shim never came so far as to say who it is
}

// Scan lists the runs whose directories lie directly below root, in the order of
// their names, so that a restarted agent can adopt them. Directories without an
// order are no runs. A run that cannot be read is named in the error, beside
// the others in the answer; a root that does not exist holds no runs.
func Scan(root string) ([]Run, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var runs []Run
	var faults []error
	for _, e := range entries {
		run, err := readRun(filepath.Join(root, e.Name()))
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		case err != nil:
			faults = append(faults, err)
		default:
			runs = append(runs, run)
		}
	}
	return runs, errors.Join(faults...)
}

func readRun(dir string) (Run, error) {
	run := Run{Dir: dir}
	if err := readJSON(filepath.Join(dir, orderFile), &run.Order); err != nil {
		return run, fmt.Errorf("read order of run %s: %w", dir, err)
	}
	var rec runRecord
	err := readJSON(filepath.Join(dir, shimFile), &rec)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return run, fmt.Errorf("read run record of %s: %w", dir, err)
	}
	run.Shim = rec.Shim
	return run, nil
}

// ReadReport returns the last report that the run's shim made durable, whether or
// not the shim still lives. os.ErrNotExist: it never wrote one.
func ReadReport(dir string) (Report, error) {
	var r Report
	if err := readJSON(filepath.Join(dir, reportFile), &r); err != nil {
		return Report{}, fmt.Errorf("read report of run %s: %w", dir, err)
	}
	return r, nil
}

// checkSocketPaths refuses directories whose sockets nobody could connect to.
func checkSocketPaths(dir string) error {
	longest := max(len(controlSocket), len(workerSocket))
	if room := maxSocketPath - longest - 1; len(dir) > room {
		return fmt.Errorf("run directory %s has a path of %d bytes, but the system's limit for the sockets in it leaves %d: "+
			"give the agent a shorter state directory", dir, len(dir), room)
	}
	return nil
}

// checkOrder finds what is missing in an order; all of it at once.
func checkOrder(o Order) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Version != ProtocolVersion {
		fault("version is %d, this shim understands %d: agent and shim come from one binary", o.Version, ProtocolVersion)
	}
	if m, _, ok := o.World.Member(o.Node); !ok || len(m.Devices) == 0 {
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
		if !filepath.IsAbs(path) {
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
// power cut. Nobody but the owner may read it: orders hold users' environments.
func writeDurable(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return replaceDurable(path, append(b, '\n'))
}

func replaceDurable(path string, b []byte) error {
	tmp := path + ".tmp"
	if err := writeSynced(tmp, b); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
