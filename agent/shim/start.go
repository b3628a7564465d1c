package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/systemd"
	"github.com/bellows-ml/bellows/record"
)

// Start writes the order into the run directory dir, durable, and starts
// `exe shim --dir dir` to carry it out. When it returns without an error the
// shim has claimed the run and answers Dial; its workers may not be executed yet.
//
// The shim has a session of its own and holds nothing of the caller's but the end
// of a pipe that tells of its start; what it has to say goes to dir/shim.log. Its
// holder remains the caller's child, and a goroutine waits for it so that it never
// becomes a zombie; should the caller die, init inherits and reaps it.
//
// After an error, ctx's included, no shim is left, but call sweep.Sweep on dir before it is
// removed. precheck.FailureOf knows one that a full disk or a failing file system has caused.
func Start(ctx context.Context, exe, dir string, order run.Order) (run.Process, error) {
	fail := func(err error) (run.Process, error) {
		return run.Process{}, fmt.Errorf("start shim of %s generation %d: %w", order.World.Job, order.World.Generation, err)
	}
	if err := errors.Join(rundir.CheckSocketPaths(dir), order.Check()); err != nil {
		return fail(err)
	}
	exe, errExe := filepath.Abs(exe)
	dir, errDir := filepath.Abs(dir)
	if err := errors.Join(errExe, errDir); err != nil {
		return fail(err)
	}
	if err := rundir.WriteOrder(dir, order); err != nil {
		return fail(err)
	}
	keepInherited()
	log, err := os.OpenFile(filepath.Join(dir, rundir.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	ready, tell, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer ready.Close()
	argv := shimCommand(order, exe, dir)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/" // it is not to keep a file system busy
	cmd.Env = append(shimEnvironment(), readyVariable+"=3")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{tell}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = tell.Close()
	if err != nil {
		return fail(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log and its report
		close(ended)
	}()
	var rec rundir.Record
	if err = awaitReady(ctx, ready); err == nil {
		rec, err = rundir.ReadRecord(dir)
	}
	if errors.Is(err, errSilent) {
		err = fmt.Errorf("%w: the end of %s: %s", err, log.Name(), lastWord(log.Name()))
	}
	if err != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // the holder and the shim; their session has no other process
		<-ended
		return fail(err)
	}
	return rec.Shim, nil
}

// shimCommand is how the shim is executed; also in a scope, the process that is
// started becomes the shim.
func shimCommand(order run.Order, exe, dir string) []string {
	argv := []string{exe, "shim", "--dir", dir}
	if !order.Scope {
		return argv
	}
	label := rundir.JobLabel(order.World.Job)
	return systemd.InScope(systemd.Scope{
		Name:        rundir.ScopeName(order, dir),
		Description: fmt.Sprintf("Bellows job %s generation %d", label, order.World.Generation),
	}, argv)
}

// keepInherited closes inherited descriptors in the processes that this one starts.
// Go closes only its own descriptors in children; a shim that carried a
// shell's pipe along would hold that open for days, and its workers would too.
func keepInherited() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil { // kernels before 5.11
		keepEach()
	}
}

// keepEach does so one by one.
func keepEach() {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// shimEnvironment is what a shim needs of ours; workers get none of it.
func shimEnvironment() []string {
	var env []string
	// XDG_RUNTIME_DIR is the way to a user's systemd; GORACE has tests' settings of the race detector.
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", "XDG_RUNTIME_DIR", "GORACE"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

var errSilent = errors.New("the shim ended before it was ready")

// lastWord is the last line of what a shim, or whatever was to become it, has logged.
func lastWord(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return cmp.Or(record.Reason(cluster.Printable(lines[len(lines)-1])), "it is empty")
}

func awaitReady(ctx context.Context, ready *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	word, err := io.ReadAll(io.LimitReader(ready, maxMessage))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("wait for the shim: %w", err)
	case string(word) == readyWord:
		return nil
	case len(word) == 0:
		return errSilent
	}
	text := strings.TrimSpace(string(word))
	if rest, passes := strings.CutPrefix(text, errnoWord); passes {
		number, words, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil {
			return fmt.Errorf("%s: %w", words, unix.Errno(n))
		}
	}
	return errors.New(text)
}
