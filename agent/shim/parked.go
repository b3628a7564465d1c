package shim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/pycommand"
	"github.com/bellows-ml/bellows/sdk"
)

const (
	// aheadVariable names the descriptor at which a process that runs ahead speaks with the shim. The script does not see it.
	aheadVariable = "BELLOWS_AHEAD"
	// readyFDVariable names the descriptor at which a command that waits by itself says that it is ready.
	readyFDVariable = "BELLOWS_READY_FD"
	// aheadFD is the process's end of that socket.
	aheadFD = 3
	// maxAheadMessage bounds a message of a process.
	maxAheadMessage = 64 << 10
	// planRoom is how much longer the environment may become by a plan, in bytes.
	planRoom = 4 << 10
	// checkBound is how long an interpreter may take until it has imported sitecustomize.
	checkBound = time.Minute
	// checkFile is an empty script, by which the interpreter is tried before the job's own script is given to it.
	checkFile = "bellows_check.py"
)

// errGivenUp ends what goes on beside the loop for a process that is not wanted any more.
var errGivenUp = errors.New("what ran ahead was given up")

// errEarly says that a process could not import early what its framework imports late. The next one does not.
var errEarly = errors.New("its framework cannot be imported early")

// errEnded says that a process that ran ahead has ended, or closed its socket.
var errEnded = errors.New("it has ended before it was parked")

// parked is a process that runs ahead, or waits to be released.
type parked struct {
	process run.Process // what was executed: the worker, or a wrapper around it
	pid     int         // who speaks; the same but for a wrapper
	conn    *net.UnixConn
	lines   *bufio.Reader
	out     *os.File          // what it prints, kept in the pipe until its rank is known
	env     map[string]string // what it was executed with
	place   string            // where in the script it is parked, and why
	meets   bool              // a framework is loaded of which workers meet at MASTER_PORT
	heard   int64             // bytes that it has sent
	written int64             // bytes that it had written elsewhere before it began; -1 = the kernel does not tell
	fileMax unix.Rlimit       // how large its files may grow once it is released
}

// attempt has processes run ahead.
type attempt struct {
	*ahead

	order   run.Order
	env     map[string]string
	program string

	mutex   sync.Mutex
	learned learned // by mutex
}

// check finds out whether the interpreter of the job's command imports the modules that are put before it: else the script
// would run beside the generation that still trains. The interpreter is tried with a script that does nothing.
func (t *attempt) check(command pycommand.Command, program string) error {
	argv := append(slices.Clone(command.Head), filepath.Join(t.dir, pythonDir, checkFile))
	p, err := t.execute(program, argv, fmt.Sprintf("%s=%d,check", aheadVariable, aheadFD))
	if err != nil {
		return err
	}
	stop, err := t.within(p, checkBound)
	if err != nil {
		return err
	}
	defer stop()
	words, err := p.hear()
	_ = p.conn.Close()
	t.clearAttempt(p, false)
	if err == nil && words[0] == "hello" {
		return nil
	}
	if t.containment.ahead.reached() {
		return t.tooLarge()
	}
	return fmt.Errorf("%s does not import sitecustomize from PYTHONPATH, by which a script runs ahead", command.Head[0])
}

// several has n processes run ahead at once, and returns those that are parked. An errEarly is not its error: such a
// process is gone, and another one can take its place.
func (t *attempt) several(n int) (all []*parked, err error) {
	began := make([]*parked, n)
	for i := range began { // on this thread: the kernel kills them when it ends
		if began[i], err = t.begin(); err != nil {
			break
		}
	}
	began = slices.DeleteFunc(began, func(p *parked) bool { return p == nil })
	if err != nil {
		for _, p := range began {
			_ = p.conn.Close() // they end, and are heard to
		}
	}
	failed := make([]error, len(began))
	var heard sync.WaitGroup
	for i, p := range began {
		heard.Go(func() { failed[i] = t.await(p) })
	}
	heard.Wait()
	for i, p := range began {
		switch {
		case failed[i] == nil:
			all = append(all, p)
		case errors.Is(failed[i], errEarly):
			t.log.Info().Err(failed[i]).Msg("a process runs ahead again, and imports nothing early")
			_ = p.conn.Close()
			t.clearAttempt(p, true)
		case err == nil:
			err = failed[i]
		}
	}
	if err == nil {
		return all, nil
	}
	for _, p := range began {
		_ = p.conn.Close()
	}
	for i, p := range began { // one by one: each has the loop kill all that it knows of
		if failed[i] != nil && !errors.Is(failed[i], errEarly) {
			t.clearAttempt(p, false)
		}
	}
	return nil, err
}

// begin executes a process that is to run ahead.
func (t *attempt) begin() (*parked, error) {
	// Room for what the plan adds to what the kernel shows of the environment.
	mark := fmt.Sprintf("%s=%d,%s", aheadVariable, aheadFD, strings.Repeat("-", planRoom))
	if t.order.Waits() {
		mark = fmt.Sprintf("%s=%d", readyFDVariable, aheadFD)
	}
	return t.execute(t.program, t.order.Command, mark)
}

// await hears a process until it is parked.
func (t *attempt) await(p *parked) error {
	stop, err := t.within(p, run.ParkBound)
	if err != nil {
		return err
	}
	defer stop()
	hear := t.converse
	if t.order.Waits() {
		hear = func(p *parked) error {
			if _, errRead := p.lines.ReadByte(); errRead != nil {
				return errEnded
			}
			return nil
		}
	}
	err = p.heed(hear)
	switch {
	case !errors.Is(err, errEnded):
		return err
	case t.containment.ahead.reached():
		return t.tooLarge()
	}
	if last := lastPrinted(p.out); last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// tooLarge says that the kernel has ended a process for want of memory.
func (t *attempt) tooLarge() error {
	return fmt.Errorf("it needs more than %d MiB of memory before its start, and may have no more", t.containment.ahead.bytes>>20)
}

// heed hears a process, unless it waits for room to print: what it prints is read once its rank is known.
func (p *parked) heed(hear func(*parked) error) error {
	done, full := make(chan struct{}), make(chan bool, 1)
	go func() {
		look := time.NewTicker(memoryPeriod)
		defer look.Stop()
		for {
			select {
			case <-done:
				full <- false
				return
			case <-look.C:
			}
			if waiting(p.out) > capacity(p.out)*3/8 { // pages that are half empty fill it, too
				full <- true
				_ = p.conn.SetDeadline(time.Unix(0, 1))
				return
			}
		}
	}()
	err := hear(p)
	close(done)
	if <-full && err != nil {
		return fmt.Errorf("it prints more than %d KiB before its start", capacity(p.out)*3/8>>10)
	}
	return err
}

// converse hears a process run ahead, until it is parked.
func (t *attempt) converse(p *parked) error {
	words, err := p.hear()
	if err != nil || words[0] != "hello" {
		return fmt.Errorf("run the script ahead: %w", errors.Join(err, errEnded))
	}
	if err = p.confine(t.id); err != nil {
		return fmt.Errorf("keep what runs ahead from writing files: %w", err)
	}
	var told []string
	for _, name := range plannedNames(t.order) {
		told = append(told, "planned="+name)
	}
	t.mutex.Lock()
	for _, what := range t.learned.active() {
		told = append(told, "before="+what)
	}
	t.mutex.Unlock()
	if err = p.say(told); err != nil {
		return errEnded
	}
	importing, early := "", false
	for {
		words, err = p.hear()
		switch {
		case err != nil && t.unwanted(): // the shim has ended it, or is about to
			return err
		case err != nil && early:
			t.learn(sdk.EarlyLesson)
			return fmt.Errorf("%w: the process has ended", errEarly)
		case err != nil:
			if importing != "" && !t.containment.ahead.reached() { // what has ended it is in there: the next one is parked before
				t.learn("import " + importing)
				err = fmt.Errorf("%w while it imported %s", err, importing)
			}
			return err
		case words[0] == "at" && len(words) > 1:
			importing = words[1]
		case words[0] == "early":
			early = true
		case words[0] == "cold" && len(words) > 1:
			if len(words) > 2 && words[2] != "-" {
				t.learn(words[2])
			}
			if len(words) > 2 && words[2] == sdk.EarlyLesson {
				return fmt.Errorf("%w: %s", errEarly, words[1])
			}
			return errors.New(words[1])
		case words[0] == "parked" && len(words) > 3:
			p.place, p.meets = fmt.Sprintf("%s (%s)", printable(words[1]), printable(words[2])), words[3] == "meets"
			if len(words) > 4 && words[4] == "readers" { // the kernel counts what they have written as the process's own
				p.written = -1
			}
			return nil
		default:
			return fmt.Errorf("what runs ahead says %q", words)
		}
	}
}

// confine keeps a process from writing files, until it is released: SIGXFSZ ends it. Python has that ignored,
// and sdk/ahead.py undoes this meanwhile.
func (p *parked) confine(id identity) error {
	if p.written = writtenBy(p.pid); p.written >= 0 {
		p.written -= p.heard + int64(waiting(p.out))
	}
	var none unix.Rlimit
	was, err := limitFiles(p.pid, id, nil)
	if err == nil {
		none.Max = was.Max
		p.fileMax, err = limitFiles(p.pid, id, &none)
	}
	return err
}

// free undoes that.
func (p *parked) free(id identity) error {
	_, err := limitFiles(p.pid, id, &p.fileMax)
	return err
}

// wrote reports how many bytes a process has written elsewhere than to the shim and to its output.
func (p *parked) wrote() int64 {
	now := writtenBy(p.pid)
	if p.written < 0 || now < 0 {
		return 0
	}
	return now - p.written - p.heard - int64(waiting(p.out))
}

// execute starts a process as a worker would be, but for its devices and what a plan tells.
func (t *attempt) execute(program string, argv []string, mark string) (*parked, error) {
	fail := func(err error) (*parked, error) {
		return nil, fmt.Errorf("start what runs ahead: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(pair[1]) //nolint:errcheck // the process has its own
	err = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	conn, errConn := connOf(pair[0])
	if err = errors.Join(err, errConn); err != nil {
		return fail(err)
	}
	out, in, err := outputPipe()
	if err != nil {
		return fail(errors.Join(err, conn.Close()))
	}
	defer unix.Close(in) //nolint:errcheck // as above
	fail = func(err error) (*parked, error) {
		return nil, fmt.Errorf("start what runs ahead: %w", errors.Join(err, conn.Close(), out.Close()))
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(null) //nolint:errcheck // as above
	attr := &syscall.ProcAttr{
		Dir: t.order.Workdir, Env: append(listed(t.env), mark),
		Files: []uintptr{uintptr(null), uintptr(in), uintptr(in), uintptr(pair[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Credential: t.id.cred},
	}
	n, may := t.mayExecute()
	if !may {
		return fail(errGivenUp)
	}
	process := run.Process{}
	defer func() {
		t.post(func() {
			if t.facts.Ahead.Executing = false; process.PID != 0 && !t.given {
				t.living = append(t.living, process)
			}
			t.reap() // what ended meanwhile
		})
	}()
	release, err := t.containment.holdAhead(attr.Sys, n)
	if err != nil {
		return fail(err)
	}
	collect := debug.SetGCPercent(-1) // as in starter.execute
	pid, err := syscall.ForkExec(program, argv, attr)
	debug.SetGCPercent(collect)
	release()
	if err != nil {
		return fail(explainExec(err))
	}
	if process, err = identify(pid); err != nil {
		return fail(err)
	}
	// Not a command of its own, which may have threads and processes: each has a priority.
	if !t.order.Waits() && Boottime() < t.calmUntil {
		calm(pid)
	}
	p := &parked{process: process, pid: pid, conn: conn, out: out, env: t.env, written: -1}
	p.lines = bufio.NewReader(&sender{p})
	return p, nil
}

// clearAttempt has the loop kill a process that was given up, and what it has left: alone, if others are to stay parked.
func (t *attempt) clearAttempt(p *parked, alone bool) {
	_ = p.out.Close()
	cleared := make(chan struct{})
	t.post(func() {
		if len(t.parked) == 0 && !alone {
			t.cleared = cleared
			return
		}
		killTree(p.process.PID) // beside others that are parked, and of which this is none
		t.living = slices.DeleteFunc(t.living, func(l run.Process) bool { return l == p.process })
		close(cleared)
	})
	select {
	case <-cleared:
	case <-t.done:
	}
	for alone && Alive(p.process) && t.abort.Err() == nil { // SIGKILL takes effect at once, but for what the kernel does meanwhile
		time.Sleep(time.Millisecond)
	}
}

// killTree ends a process that is not needed, and what it has started.
func killTree(pid int) {
	all, err := processes()
	if err != nil {
		return // the end of the run finds it
	}
	root := map[int]bool{pid: true}
	_ = killAll(nil, append(living([]int{pid}), familyOf(all).descendants(root)...))
}

// sender reads what a process sends, and notes who it is, by the kernel's word.
type sender struct{ of *parked }

func (s *sender) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := s.of.conn.ReadMsgUnix(b, oob)
	n = max(n, 0) // it is -1 beside an error, which bufio takes for a fault of the program
	s.of.heard += int64(n)
	if messages, errParse := unix.ParseSocketControlMessage(oob[:oobn]); errParse == nil && len(messages) > 0 {
		if cred, errCred := unix.ParseUnixCredentials(&messages[0]); errCred == nil && cred.Pid > 0 {
			s.of.pid = int(cred.Pid)
		}
	}
	return n, err
}

// say sends fields; what has none is an empty message.
func (p *parked) say(fields []string) error {
	_, err := p.conn.Write([]byte(strings.Join(append(slices.Clone(fields), ""), "\x00") + "\x00"))
	return err
}

// hear takes one message in: at least one field.
func (p *parked) hear() (fields []string, err error) {
	size := 0
	for {
		field, err := p.lines.ReadSlice(0)
		if size += len(field); err != nil || size > maxAheadMessage {
			return nil, errEnded
		}
		if len(field) > 1 {
			fields = append(fields, string(field[:len(field)-1]))
		} else if len(fields) > 0 {
			return fields, nil
		}
	}
}

func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// writeModules puts what Python finds by the workers' PYTHONPATH into the run directory.
func writeModules(dir string, o run.Order) error {
	modules := map[string][]byte{sdk.FileName: sdk.Module}
	if o.Warms() {
		modules[sdk.SiteFileName], modules[sdk.AheadFileName] = sdk.WorkerSite, sdk.Ahead
		modules[sdk.EarlyFileName], modules[sdk.LeaveFileName], modules[checkFile] = sdk.Early, sdk.Leave, nil
	}
	dir = filepath.Join(dir, pythonDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write Python module: %w", err)
	}
	for name, source := range modules {
		path := filepath.Join(dir, name)
		// A parked process has read it, and must not find it changed.
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, source) {
			continue
		}
		if err := os.WriteFile(path, source, 0o644); err != nil {
			return fmt.Errorf("write Python module: %w", err)
		}
	}
	return nil
}
