package shim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/sdk"
)

// launcherCode is what the interpreter runs of a launcher.
var launcherCode = fmt.Sprintf("import bellows_launcher; bellows_launcher.main(%d)", launcherFD)

// launcherOrder is what a launcher is told first.
type launcherOrder struct {
	Modules  []string          `json:"modules"`
	Avoid    []string          `json:"avoid"`
	Planned  []string          `json:"planned"`
	Env      map[string]string `json:"env"` // what it was executed with
	Script   string            `json:"script"`
	IsModule bool              `json:"is_module"`
	Args     []string          `json:"args"`
	Shim     int               `json:"shim"` // which adopts its workers; not its parent where a wrapper stands between
	Program  string            `json:"program"`
	Comm     string            `json:"comm"` // what the kernel calls a worker of Program itself; empty = as the launcher
}

// errGivenUp ends what goes on beside the loop for a launcher that is not wanted any more.
var errGivenUp = errors.New("its launcher was given up")

// mayExecute asks the loop whether a launcher is still wanted. From then on the loop waits for executed.
func (a *attempt) mayExecute() bool {
	answer := make(chan bool, 1)
	a.post(func() {
		a.forking = a.killer.why == "" && !a.ending
		answer <- a.forking
	})
	select {
	case may := <-answer:
		return may
	case <-a.done:
		return false
	}
}

// once starts a launcher, and hears how it goes. It is returned only if it is ready.
func (a *attempt) once(n int) (*readyLauncher, launcherWord, error) {
	r, out, err := a.execute(n)
	if err != nil {
		return nil, launcherWord{}, err
	}
	said := &capture{from: out, done: make(chan struct{})}
	go said.run()
	hear := a.converse
	if a.order.waits() {
		hear = a.awaitByte
	}
	word, err := hear(r)
	if err == nil && word.Ready {
		err = hurry(r.process.PID)
	}
	if err == nil && word.Ready {
		r.printed, err = said.take()
		r.out = out
	}
	if err == nil && word.Ready {
		return r, word, nil
	}
	_ = r.conn.Close()
	if errors.Is(err, errSilent) {
		<-said.done
		err = fmt.Errorf("its launcher ended: %s", said.last())
		if a.containment.launcher.reached() {
			err = fmt.Errorf("its launcher has come to the %d MiB of memory that it may have", launcherMemory(a.order)>>20)
		}
	}
	a.clearAttempt()
	return nil, word, err
}

// clearAttempt has the loop kill what an attempt has left.
func (a *attempt) clearAttempt() {
	cleared := make(chan struct{})
	a.post(func() { a.cleared = cleared })
	select {
	case <-cleared:
	case <-a.done:
	}
}

// execute starts the launcher as a worker would be, but for its devices and its rank.
func (a *attempt) execute(n int) (*readyLauncher, *os.File, error) {
	fail := func(err error) (*readyLauncher, *os.File, error) {
		return nil, nil, fmt.Errorf("start its launcher: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(pair[1]) //nolint:errcheck // the launcher has its own
	conn, err := connOf(pair[0])
	if err != nil {
		return fail(err)
	}
	var p [2]int
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return fail(errors.Join(err, conn.Close()))
	}
	defer unix.Close(p[1])             //nolint:errcheck // as above
	err = unix.SetNonblock(p[0], true) // our end only: for the poller
	out := os.NewFile(uintptr(p[0]), "launcher's output")
	fail = func(err error) (*readyLauncher, *os.File, error) {
		return nil, nil, fmt.Errorf("start its launcher: %w", errors.Join(err, conn.Close(), out.Close()))
	}
	if err != nil {
		return fail(err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(null) //nolint:errcheck // as above
	argv, env := a.words()
	attr := &syscall.ProcAttr{
		Dir: a.order.Workdir, Env: env,
		Files: []uintptr{uintptr(null), uintptr(p[1]), uintptr(p[1]), uintptr(pair[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Credential: a.id.cred},
	}
	if !a.mayExecute() {
		return fail(errGivenUp)
	}
	process := Process{}
	defer func() { a.post(func() { a.launcher.process, a.forking = process, false }) }()
	release, err := a.containment.holdLauncher(attr.Sys, n)
	if err != nil {
		return fail(err)
	}
	collect := debug.SetGCPercent(-1) // as in starter.execute
	pid, err := syscall.ForkExec(a.program, argv, attr)
	debug.SetGCPercent(collect)
	release()
	if err != nil {
		return fail(explainExec(err))
	}
	if process, err = identify(pid); err != nil {
		return fail(err)
	}
	// Not a command of its own, which may have threads and processes: each has a priority.
	if a.order.Prepare != nil && !a.order.waits() && Boottime() < a.calmUntil {
		calm(pid)
	}
	return &readyLauncher{process: process, conn: conn, lines: bufio.NewReader(conn), env: a.env, list: a.list}, out, nil
}

// converse tells a launcher what to import, and hears how that went.
func (a *attempt) converse(r *readyLauncher) (word launcherWord, err error) {
	avoid := append([]string{}, notForLaunchers...)
	for name := range a.list.Avoid {
		avoid = append(avoid, name)
	}
	o := launcherOrder{
		Modules: append([]string{}, a.list.Modules...), Avoid: avoid, Planned: plannedNames(a.order), Env: a.env,
		Script: a.command.Script, IsModule: a.command.IsModule, Args: append([]string{}, a.command.Args...), Shim: os.Getpid(), Program: a.program, Comm: a.comm,
	}
	if err = r.conn.SetDeadline(time.Now().Add(importBound)); err != nil {
		return word, err
	}
	stop := context.AfterFunc(a.abort, func() { _ = r.conn.SetDeadline(time.Unix(0, 1)) })
	defer stop()
	if err = r.send(o, nil); err != nil {
		return word, errSilent
	}
	return r.hear()
}

// send tells the launcher something, with descriptors.
func (r *readyLauncher) send(v any, fds []int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	n, _, err := r.conn.WriteMsgUnix(b, oob, nil)
	if err == nil && n < len(b) {
		_, err = r.conn.Write(b[n:])
	}
	return err
}

// hear takes one answer of the launcher's in.
func (r *readyLauncher) hear() (word launcherWord, err error) {
	var line []byte
	for {
		part, errRead := r.lines.ReadSlice('\n')
		line = append(line, part...)
		if errRead == nil {
			break
		}
		if !errors.Is(errRead, bufio.ErrBufferFull) || len(line) > maxLauncherWord {
			return word, errSilent
		}
	}
	if err = json.Unmarshal(line, &word); err != nil {
		return word, fmt.Errorf("its launcher's answer: %w", err)
	}
	return word, nil
}

func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// capture keeps what a launcher prints.
type capture struct {
	from    *os.File
	done    chan struct{} // closed when nothing more is read
	text    []byte
	tooMuch bool
}

func (c *capture) run() {
	defer close(c.done)
	b := make([]byte, 4<<10)
	for {
		n, err := c.from.Read(b)
		c.add(b[:n])
		if err != nil {
			return
		}
	}
}

func (c *capture) add(b []byte) {
	room := maxPrinted - len(c.text)
	c.tooMuch = c.tooMuch || len(b) > room
	c.text = append(c.text, b[:min(room, len(b))]...)
}

// take returns all that was printed up to now.
func (c *capture) take() ([]byte, error) {
	if err := c.from.SetReadDeadline(time.Now()); err != nil {
		return nil, err
	}
	<-c.done
	raw, err := c.from.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = raw.Control(func(fd uintptr) {
		b := make([]byte, 4<<10)
		for {
			n, errRead := unix.Read(int(fd), b)
			if n <= 0 || errRead != nil {
				return
			}
			c.add(b[:n])
		}
	})
	if err == nil && c.tooMuch {
		err = fmt.Errorf("its imports print more than %d KiB", maxPrinted>>10)
	}
	return c.text, err
}

// last is the last line.
func (c *capture) last() string {
	lines := bytes.Split(bytes.TrimSpace(c.text), []byte("\n"))
	if text := printable(string(lines[len(lines)-1])); text != "" {
		return text
	}
	return "it printed nothing"
}

// writeModules puts what Python finds by the workers' PYTHONPATH into the run directory.
func writeModules(dir string, o Order) error {
	modules := map[string][]byte{sdk.FileName: sdk.Module}
	if o.forks() {
		modules[sdk.LauncherFileName], modules[sdk.SiteFileName] = sdk.Launcher, sdk.Recorder
	}
	dir = filepath.Join(dir, pythonDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write Python module: %w", err)
	}
	for name, source := range modules {
		path := filepath.Join(dir, name)
		// A launcher has read it, and must not find it changed.
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, source) {
			continue
		}
		if err := os.WriteFile(path, source, 0o644); err != nil {
			return fmt.Errorf("write Python module: %w", err)
		}
	}
	return nil
}
