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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Self is this program, as what is running and not as what may lie at its path
// by now. Also a user who cannot enter the folders on that path can execute it.
const Self = "/proc/self/exe"

const (
	maxComplaint = 16 << 10
	// hangUp is how long a child that has ended may leave its output open.
	hangUp = 5 * time.Second
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

// Run runs the task to its end, or kills it when ctx is done. Where another
// goroutine of the process reaps all its children, how the child ended may stay
// unknown; that is no error then, and Out has to tell.
func Run(ctx context.Context, t Task) error {
	cmd := exec.CommandContext(ctx, t.Program, t.Args...) //nolint:gosec // our own program
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: t.As, Pdeathsig: unix.SIGKILL, Setsid: true}
	complaint := &bounded{to: &bytes.Buffer{}, most: maxComplaint}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(t.In), &bounded{to: t.Out, most: t.Most}, complaint
	cmd.WaitDelay = hangUp
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, after the child, which
		// has its parent's death signal from this thread and its no_new_privs too.
		runtime.LockOSThread()
		done <- runHere(cmd, t.Started)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.to.(*bytes.Buffer).String()))
	}
	return nil
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

// bounded takes so many bytes.
type bounded struct {
	to   io.Writer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	fits := min(len(p), b.most)
	n, err := b.to.Write(p[:fits])
	b.most -= n
	if err == nil && fits < len(p) {
		err = errors.New("it says more than it may")
	}
	return n, err
}
