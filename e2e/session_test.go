package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// session is a command that a person has started and looks at.
type session struct {
	t     testing.TB
	cmd   *exec.Cmd
	out   *screen // stdout; on a terminal stderr too
	errs  *screen
	tty   *os.File      // the terminal's other side; nil without one
	ended chan struct{} // closed once the command has ended and all that it wrote was read
}

// screen collects what is written, for reading meanwhile.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// String returns what was written so far.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// startSession starts a command without a terminal: its input is empty, its output is a pipe.
func startSession(t testing.TB, cmd *exec.Cmd) *session {
	t.Helper()
	s := &session{t: t, cmd: cmd, out: &screen{}, errs: &screen{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s.out, s.errs
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	s.begin(func() {})
	return s
}

// startOnTerminal starts a command as the leader of a terminal of its own.
func startOnTerminal(t testing.TB, cmd *exec.Cmd) *session {
	t.Helper()
	tty, name := openTerminal(t)
	side, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	s := &session{t: t, cmd: cmd, out: &screen{}, tty: tty, ended: make(chan struct{})}
	s.errs = s.out
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	// Ends with an error once no process has the other side open any more, or when the terminal is dropped.
	s.begin(func() { _, _ = io.Copy(s.out, tty) })
	return s
}

// begin starts the command; read returns when there is nothing more to read of it.
func (s *session) begin(read func()) {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		read()
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.drop() // so that the reading ends, even if another process has the terminal
		<-s.ended
	})
}

// openTerminal makes a pseudo terminal and returns its master and its slave's name.
func openTerminal(t testing.TB) (master *os.File, slave string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := master.SyscallConn() // Fd would make reads block, and a Close wait for them
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if controlErr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	return master, fmt.Sprintf("/dev/pts/%d", n)
}

// drop closes the terminal, as a lost connection does: the kernel sends SIGHUP.
func (s *session) drop() {
	if s.tty != nil {
		_ = s.tty.Close()
	}
}

// press types on the terminal. "\x03" is Ctrl-C: the kernel makes a signal of it.
func (s *session) press(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until the command has said something, on stdout or stderr.
func (s *session) await(text string) {
	s.t.Helper()
	s.awaitTimes(text, 1)
}

// awaitTimes waits until a text has appeared so many times.
func (s *session) awaitTimes(text string, times int) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ended := s.hasEnded() // before its last words are read
		if strings.Count(s.said(), text) >= times {
			return
		}
		if ended || time.Now().After(deadline) {
			s.t.Fatalf("%v did not say %q %d times:\n%s", s.cmd.Args, text, times, s.said())
		}
	}
}

// hasEnded reports whether the command has ended, and all of its output is read.
func (s *session) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// said is all that the command has written.
func (s *session) said() string {
	if s.tty != nil {
		return s.out.String()
	}
	return s.out.String() + s.errs.String()
}

// patience is how long a test waits for any outcome before it fails: many times what
// that takes on a machine with nothing else to do, as tests run where there is much.
const patience = 3 * time.Minute

// wait returns the exit status.
func (s *session) wait() int {
	s.t.Helper()
	return s.waitWithin(patience)
}

// waitWithin returns the exit status of a command that takes long by itself.
func (s *session) waitWithin(limit time.Duration) int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.t.Fatalf("%v does not end:\n%s", s.cmd.Args, s.said())
	}
	return s.cmd.ProcessState.ExitCode()
}
