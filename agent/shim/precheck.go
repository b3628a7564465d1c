package shim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
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

// precheck looks, with the owner's eyes, at everything that the workers will
// need from this node, so that a node where something is missing says what,
// instead of a script that says something else. It returns the program to execute
// and the environment to do it with.
func precheck(ctx context.Context, o Order, dir string, id identity, waiting func(string)) (program string, env map[string]string, err error) {
	o.Env = maps.Clone(o.Env)
	steps := []struct {
		what string
		do   func() error
	}{
		{"run directory", func() error {
			return checkEnterable("run directory", dir, "let the owner enter it and its parents (chmod o+x)")
		}},
		{"workdir", func() error {
			return checkEnterable("workdir", o.Workdir, "make it available at the same path on every node")
		}},
		{"env file", func() error {
			if o.EnvFile == "" {
				return nil
			}
			secret, err := ReadEnvFile(o.EnvFile, o.Owner.UID)
			if err == nil && o.Env == nil {
				o.Env = secret
			}
			maps.Copy(o.Env, secret)
			return err
		}},
		{"command", func() (err error) { program, err = findProgram(o); return err }},
		{"checkpoint_dir", func() error { return meetAtCheckpoint(ctx, o) }},
	}
	for _, s := range steps {
		if ctx.Err() != nil { // also if the owner is not known: then nothing is to be done in his name
			return "", nil, ctx.Err()
		}
		waiting("checking " + s.what)
		if err := id.do(s.do); err != nil {
			return "", nil, &refusal{refusedFor(err), err}
		}
	}
	if o.World.Members[0].Node == o.Node {
		if err := checkMaster(o.World.Master); err != nil {
			return "", nil, &refusal{record.PortTaken, err}
		}
	}
	return program, o.Env, nil
}

// refusedFor tells a full disk, which passes, from what is wrong with the node.
func refusedFor(err error) record.FailureKind {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return record.NoSpace
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
func findProgram(o Order) (string, error) {
	const remedy = "install it at the same path on every node, and submit with the environment it needs activated"
	name := o.Command[0]
	if strings.Contains(name, "/") {
		path := absolute(o.Workdir, name)
		if err := checkExecutable(path); err != nil {
			return "", fmt.Errorf("command %s: %w: %s", path, err, remedy)
		}
		return path, nil
	}
	search, ok := o.Env["PATH"]
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
	return "", fmt.Errorf("command %s is not in the submitted PATH %s: %s", record.Cut(name, shownPath), record.Cut(search, shownPath), remedy)
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

const (
	// meetWait is how long rank 0's node may take to make the directory, and a
	// network file system to show it.
	meetWait = 10 * time.Second
	meetPoll = 20 * time.Millisecond

	meetingFile = ".bellows-generation"
)

// meetAtCheckpoint proves that the generation's directory is one and the same on
// all nodes: rank 0's node makes it and leaves a note, the others look for it.
// It runs as the owner.
func meetAtCheckpoint(ctx context.Context, o Order) error {
	first := o.World.Members[0].Node
	note := fmt.Sprintf("job=%s generation=%d master=%s node=%s\n", o.World.Job, o.World.Generation, o.World.Master, first)
	path := filepath.Join(o.Checkpoint, meetingFile)
	if o.Node == first {
		if err := os.MkdirAll(o.Checkpoint, 0o755); err != nil {
			return unwritable(o, err, "choose a base directory that the owner can write to on every node")
		}
		if err := checkInside(o.Checkpoint); err != nil {
			return err
		}
		if err := writeNote(path, note); err != nil {
			return unwritable(o, err, "let the owner write there")
		}
		return nil
	}
	if err := awaitNote(ctx, path, note); err != nil {
		return fmt.Errorf("checkpoint_dir %s is not the same directory on node %s and node %s (%w): use a file system that both see",
			o.Checkpoint, o.Node, first, err)
	}
	if err := checkInside(o.Checkpoint); err != nil {
		return err
	}
	probe := filepath.Join(o.Checkpoint, meetingFile+"-"+string(o.Node))
	if err := writeNote(probe, note); err != nil {
		return unwritable(o, err, "let the owner write there from every node")
	}
	return os.Remove(probe)
}

// unwritable says what is to be done where a job cannot save: a full disk asks for room, not for rights.
func unwritable(o Order, err error, remedy string) error {
	if refusedFor(err) == record.NoSpace {
		remedy = "make room there; the job starts again by itself"
	}
	return fmt.Errorf("checkpoint_dir %s: %w: %s", o.Checkpoint, err, remedy)
}

// writeNote replaces the file as a whole: a reader sees all of it or nothing.
func writeNote(path, note string) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(note), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func awaitNote(ctx context.Context, path, want string) error {
	ctx, cancel := context.WithTimeout(ctx, meetWait)
	defer cancel()
	poll := time.NewTicker(meetPoll)
	defer poll.Stop()
	for {
		got, err := os.ReadFile(path)
		if err == nil && string(got) == want {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("its note says %q", printable(string(got)))
		}
		select {
		case <-ctx.Done():
			return err
		case <-poll.C:
		}
	}
}

// checkInside refuses a generation directory <base>/<job>/<generation> that a
// symbolic link takes out of its base.
func checkInside(checkpoint string) error {
	job := filepath.Dir(checkpoint)
	base := filepath.Dir(job)
	realBase, err := filepath.EvalSymlinks(base)
	if err != nil {
		return fmt.Errorf("checkpoint_dir %s: %w", checkpoint, err)
	}
	got, err := filepath.EvalSymlinks(checkpoint)
	if err != nil {
		return fmt.Errorf("checkpoint_dir %s: %w", checkpoint, err)
	}
	if want := filepath.Join(realBase, filepath.Base(job), filepath.Base(checkpoint)); got != want {
		return fmt.Errorf("checkpoint_dir %s is a symbolic link to %s, outside of %s: remove the link", checkpoint, got, base)
	}
	return nil
}
