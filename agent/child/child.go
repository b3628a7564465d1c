package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Self is this program, as what is running and not as what may lie at its path
// by now. Also a user who cannot enter the folders on that path can execute it.
const Self = "/proc/self/exe"

const (
	maxComplaint = 16 << 10
	// waitDelay is how long a child that has ended may leave its output open.
	waitDelay = 5 * time.Second
	// leaveAfter is how long a child that was killed is waited for: a little longer.
	leaveAfter = waitDelay + time.Second
)

// Task is what a child is to do.
type Task struct {
	Program string // Self, or an absolute path
	Args    []string
	As      *syscall.Credential // nil: who this process is
	In      []byte              // its input
	Out     io.Writer           // gets its output, at most Most bytes
	Most    int
	// Started is called once the child runs, with its pid; may be nil.
	Started func(pid int)
}

// ErrLeft is wrapped where a child was left to itself, or one of before that was
// left still has not ended.
var ErrLeft = errors.New("a child process does not end, as in state D")

// Runner runs tasks of one kind. It leaves a child that does not even end when it
// is killed, and starts none while one that it has left lives: each keeps a thread
// of this process. The zero value is ready, and may be used by many goroutines.
type Runner struct {
	mu   sync.Mutex
	left int // children that have not ended
}

// Run runs a task with a Runner of its own.
func Run(ctx context.Context, t Task) error { return new(Runner).Run(ctx, t) }

// Run runs the task to its end, or kills it when ctx is done; it returns leaveAfter
// later at the latest. Where another goroutine of the process reaps all its children,
// how the child ended may stay unknown; that is no error then, and Out has to tell.
// Nothing is written to Out after the return.
func (r *Runner) Run(ctx context.Context, t Task) error {
	if n := r.Left(); n > 0 {
		return fmt.Errorf("%w: %d of before are left", ErrLeft, n)
	}
	cmd := exec.CommandContext(ctx, t.Program, t.Args...) //nolint:gosec // our own program
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if race, ok := os.LookupEnv("GORACE"); ok { // tests' settings of the race detector
		cmd.Env = append(cmd.Env, "GORACE="+race)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: t.As, Pdeathsig: unix.SIGKILL, Setsid: true}
	var text bytes.Buffer
	complaint, out := &bounded{to: &text, most: maxComplaint}, &bounded{to: t.Out, most: t.Most}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(t.In), out, complaint
	cmd.WaitDelay = waitDelay
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, after the child, which
		// has its parent's death signal from this thread and its no_new_privs too.
		runtime.LockOSThread()
		done <- runHere(cmd, t.Started)
	}()
	err := r.await(ctx, done)
	out.close()
	complaint.close()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(text.String()))
	}
	return nil
}

// await waits for a child's end, but not much longer than ctx.
func (r *Runner) await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(leaveAfter):
	}
	r.unfinished(1)
	go func() {
		<-done //nolint:errcheck // how it ended is not asked any more
		r.unfinished(-1)
	}()
	return fmt.Errorf("%w: %w", ErrLeft, ctx.Err())
}

// Left is how many children were left and have not ended.
func (r *Runner) Left() int { return r.unfinished(0) }

// unfinished counts the children that were left, and returns how many there are.
func (r *Runner) unfinished(more int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += more
	return r.left
}

func runHere(cmd *exec.Cmd, started func(pid int)) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: let every user execute the program of the agent (chmod o+x)", err)
	} else if err != nil {
		return err
	}
	if started != nil {
		started(cmd.Process.Pid)
	}
	if err := cmd.Wait(); err != nil && !errors.Is(err, unix.ECHILD) {
		return err
	}
	return nil
}

// bounded takes so many bytes, until it is closed.
type bounded struct {
	mu   sync.Mutex
	to   io.Writer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fits := min(len(p), b.most)
	n, err := b.to.Write(p[:fits])
	b.most -= n
	if err == nil && fits < len(p) {
		err = errors.New("it says more than it may")
	}
	return n, err
}

// close waits for a write under way, and lets no more through.
func (b *bounded) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to, b.most = io.Discard, 0
}
