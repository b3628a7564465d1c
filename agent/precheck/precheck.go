package precheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/pycommand"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
)

// defaultPath is where programs are looked for if the submitted environment has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// refusal is a failure that is known before any worker was executed.
type refusal struct {
	kind record.FailureKind
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Findings is what was found of a run's needs on this node.
type Findings struct {
	Program string            `json:"program"`           // to execute
	Secrets map[string]string `json:"secrets,omitempty"` // what the env file holds
	// Shebang is what the program's first line names to run it, where workers may be forked.
	Shebang []string `json:"shebang,omitempty"`
}

// Check looks at everything that the workers will need from this node, so that
// a node where something is missing says what, instead of a script that says
// something else. It returns what was found, and the environment to execute the program with.
func Check(ctx context.Context, o run.Order, l Question, id owner.Identity) (found Findings, env map[string]string, err error) {
	if ctx.Err() != nil { // also if the owner is not known: then nothing is to be done in its name
		return found, nil, ctx.Err()
	}
	if found, err = l.Ask(ctx, id); err != nil {
		return found, nil, err
	}
	env = maps.Clone(o.Env)
	if env == nil {
		env = found.Secrets
	}
	maps.Copy(env, found.Secrets)
	if o.World.Members[0].Node == o.Node {
		if err := checkMaster(o.World.Master); err != nil {
			return found, nil, &refusal{record.PortTaken, err}
		}
	}
	return found, env, nil
}

// here does the looking, in a process of the owner's.
func (l Question) here(ctx context.Context) (f Findings, err error) {
	o := l.Order
	for _, step := range []struct {
		what  string
		ofRun bool // looked at only where there is a run
		do    func() error
	}{
		{"run directory", true, func() error {
			return checkEnterable("run directory", l.Dir, "let the owner enter it and its parents (chmod o+x)")
		}},
		{"workdir", false, func() error {
			return checkEnterable("workdir", o.Workdir, "make it available at the same path on every node")
		}},
		{"env file", false, func() (err error) {
			if o.EnvFile != "" {
				f.Secrets, err = ReadEnvFile(o.EnvFile, o.Owner.UID)
			}
			return err
		}},
		{"command", false, func() (err error) {
			if f.Program, err = findProgram(o, f.Secrets); err == nil && o.Warms() {
				f.Shebang, err = readShebang(f.Program)
			}
			return err
		}},
		{"checkpoint_dir", true, func() error {
			if !o.Planned() {
				return nil
			}
			return MeetAtCheckpoint(ctx, o)
		}},
	} {
		if l.PathsOnly && step.ofRun {
			continue
		}
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		l.Waiting("checking " + step.what)
		err := step.do()
		if err != nil && !step.ofRun {
			err = missing{err}
		}
		if err != nil {
			return f, &refusal{FailureOf(err), err}
		}
	}
	if l.PathsOnly {
		f.Secrets = nil // they are for workers only
	}
	return f, nil
}

// transients are what file systems and the kernel say of what may be over in a
// moment: a mount that is read-only or fails until it is mended, a server of
// files that is not there, and what others hold and may give back. The module
// in Python knows those of files by the same numbers.
var transients = []unix.Errno{
	unix.EROFS, unix.EIO, unix.ESTALE, unix.ETIMEDOUT, unix.ENOTCONN, unix.ESHUTDOWN, unix.ECONNREFUSED, unix.ECONNRESET, unix.ECONNABORTED,
	unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENETDOWN, unix.ENETUNREACH, unix.EREMOTEIO,
	unix.ENOMEM, unix.EAGAIN, unix.EMFILE, unix.ENFILE,
}

// FailureOf tells what passes, a full disk, a file system in trouble or a user
// database that does not answer, from what is wrong with the node or the job.
func FailureOf(err error) record.FailureKind {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.kind
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return record.NoSpace
	}
	if errors.Is(err, userdb.ErrNoAnswer) || slices.ContainsFunc(transients, func(e unix.Errno) bool { return errors.Is(err, e) }) {
		return record.Transient
	}
	return record.NodeRefused
}

// checkEnterable demands a directory that one can make one's working directory.
func checkEnterable(field, path, remedy string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		err = errors.Unwrap(err) // the path is in our own words already
	case !info.IsDir():
		err = errors.New("it is not a directory")
	default:
		err = unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", field, path, err, remedy)
	}
	return nil
}

// shownPath is how much of a path or a PATH an error repeats before it says what to do.
const shownPath = 256

// findProgram resolves the command's first word as execvp would in the workdir.
func findProgram(o run.Order, secrets map[string]string) (string, error) {
	const remedy = "install it at the same path on every node, and submit with the environment it needs activated"
	name := o.Command[0]
	if strings.Contains(name, "/") {
		path := absolute(o.Workdir, name)
		if err := checkExecutable(path); err != nil {
			return "", fmt.Errorf("command %s: %w: %s", path, err, remedy)
		}
		return path, nil
	}
	search, ok := secrets["PATH"]
	if !ok {
		search, ok = o.Env["PATH"]
	}
	if !ok {
		search = defaultPath
	}
	first := error(nil)
	for _, dir := range filepath.SplitList(search) {
		path := absolute(o.Workdir, filepath.Join(dir, name))
		err := checkExecutable(path)
		if err == nil {
			return path, nil
		}
		if first == nil && !errors.Is(err, os.ErrNotExist) {
			first = fmt.Errorf("%s: %w", path, err)
		}
	}
	if first != nil {
		return "", fmt.Errorf("command %s: %w: %s", name, first, remedy)
	}
	return "", fmt.Errorf("command %s is in none of the %d folders of the submitted PATH: %s",
		record.Cut(name, shownPath), len(filepath.SplitList(search)), remedy) // which is not others' to see
}

// readShebang reads what the first line of a program names to run it.
func readShebang(path string) ([]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrPermission) {
		return nil, nil // it can be executed all the same
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, 256) // what the kernel reads of it
	n, err := f.Read(start)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return pycommand.ParseShebang(start[:n]), nil
}

func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a file")
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// checkMaster tries the port that rank 0 is going to listen on, on all addresses
// as torch does, and whether the address is still one of this node's: an interface
// may have got another since the world was planned.
func checkMaster(master cluster.Endpoint) error {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", master.Port))
	if err != nil {
		return fmt.Errorf("master port %d: %w: another one is tried", master.Port, err)
	}
	if err = l.Close(); err != nil {
		return fmt.Errorf("master port %d: %w: another one is tried", master.Port, err)
	}
	l, err = net.Listen("tcp", net.JoinHostPort(master.Host, "0"))
	if err != nil {
		return fmt.Errorf("master address %s: %w: it is tried again with this node's present one", master.Host, err)
	}
	return l.Close()
}
