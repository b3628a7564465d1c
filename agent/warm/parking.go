package warm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/pycommand"
	"github.com/bellows-ml/bellows/sdk"
)

// Interpreted is a command as that of a Python interpreter, and the program that is executed for it. Cold is
// why no process of it can run ahead.
func Interpreted(words []string, program string, shebang []string) (command pycommand.Command, executed string) {
	command = pycommand.Parse(words)
	if command.Other && len(shebang) > 0 {
		whole := append(append([]string{}, shebang...), append([]string{program}, words[1:]...)...)
		return pycommand.Parse(whole), shebang[0]
	}
	return command, program
}

// AtOnce is how many processes run ahead at once: half of the processors are left to the world that trains. A node of
// eight devices would otherwise be ready after eight times an import, which is longer than the leader waits.
var AtOnce = max(1, runtime.NumCPU()/2)

// Parking is what processes of a prepared run are executed with, to run ahead until they are parked.
type Parking struct {
	Dir         string    // the run directory
	Order       run.Order // with what the owner's file of secrets adds to its environment
	Program     string    // to execute
	Shebang     []string  // what the program's first line names to run it
	Identity    owner.Identity
	Containment *contain.Containment
	Loop        Loop
	Log         zerolog.Logger
	CalmUntil   int64 // time since boot in ns, from which on they have their share of the processors
}

// Loop is the run, as far as it has a say in what runs ahead of it. Its methods wait for the run's loop.
type Loop interface {
	// MayExecute asks whether one more process is wanted, the n-th of the run. If so the loop reaps none until Executed.
	MayExecute() (n int, may bool)
	// Executed tells of a process that was executed after MayExecute; nil = it was not.
	Executed(p *run.Process)
	// Unwanted reports whether what runs ahead was given up, or is to end with the run.
	Unwanted() bool
	// Clear kills a process that was given up, and all that it has left: alone, if others are to stay parked. It returns once
	// they are gone.
	Clear(p run.Process, alone bool)
}

// Park executes processes until n are parked. If it cannot, it returns an error and leaves none parked. The calling
// goroutine is locked to its thread: the kernel kills the processes when that ends.
func (k Parking) Park(ctx context.Context, n int) (all []*Parked, err error) {
	order := k.Order
	command, program := Interpreted(order.Command, k.Program, k.Shebang)
	if command.Cold != "" && !order.Waits() {
		return nil, errors.New(command.Cold)
	}
	if order.NoNewPrivs {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("keep what runs ahead from new privileges: %w", err)
		}
	}
	if err = WriteModules(k.Dir, order); err != nil {
		return nil, err
	}
	t := attempt{Parking: k, ctx: ctx, env: order.EnvironmentAhead(k.Dir), learned: ReadLearned(order.LearnedFile)}
	for name, value := range t.env {
		if !utf8.ValidString(name + value) {
			return nil, errors.New("its environment is not UTF-8")
		}
	}
	if !order.Waits() {
		if err = t.check(command, program); err != nil {
			return nil, err
		}
	}
	for again := false; len(all) < n; {
		// The first one alone: what it finds holds for the others.
		at := min(n-len(all), AtOnce)
		if len(all) == 0 {
			at = 1
		}
		more, err := t.several(at)
		if err == nil && len(more) == 0 {
			if again { // it was told to import nothing early
				err = ErrEarly
			}
			again = true
		}
		if all = append(all, more...); err != nil {
			for _, each := range all {
				_ = each.conn.Close()
			}
			return nil, err
		}
	}
	return all, nil
}

// attempt has processes run ahead.
type attempt struct {
	Parking

	ctx context.Context
	env map[string]string

	mutex   sync.Mutex
	learned Learned // by mutex
}

// check finds out whether the interpreter of the job's command imports the modules that are put before it: else the script
// would run beside the generation that still trains. The interpreter is tried with a script that does nothing.
func (t *attempt) check(command pycommand.Command, program string) error {
	argv := append(slices.Clone(command.Head), filepath.Join(t.Dir, run.PythonDir, checkFile))
	p, err := t.execute(program, argv, fmt.Sprintf("%s=%d,check", aheadVariable, aheadFD))
	if err != nil {
		return err
	}
	stop, err := p.within(t.ctx, checkBound)
	if err != nil {
		return err
	}
	defer stop()
	words, err := p.hear()
	_ = p.conn.Close()
	t.clear(p, false)
	if err == nil && words[0] == "hello" {
		return nil
	}
	if most, starved := t.Containment.AheadStarved(); starved {
		return tooLarge(most)
	}
	return fmt.Errorf("%s does not import sitecustomize from PYTHONPATH, by which a script runs ahead", command.Head[0])
}

// several has n processes run ahead at once, and returns those that are parked. ErrEarly is not its error: such a
// process is gone, and another one can take its place.
func (t *attempt) several(n int) (all []*Parked, err error) {
	began := make([]*Parked, n)
	for i := range began { // on this thread: the kernel kills them when it ends
		if began[i], err = t.begin(); err != nil {
			break
		}
	}
	began = slices.DeleteFunc(began, func(p *Parked) bool { return p == nil })
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
		case errors.Is(failed[i], ErrEarly):
			t.Log.Info().Err(failed[i]).Msg("a process runs ahead again, and imports nothing early")
			_ = p.conn.Close()
			t.clear(p, true)
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
		if failed[i] != nil && !errors.Is(failed[i], ErrEarly) {
			t.clear(p, false)
		}
	}
	return nil, err
}

// begin executes a process that is to run ahead.
func (t *attempt) begin() (*Parked, error) {
	// Room for what the plan adds to what the kernel shows of the environment.
	mark := fmt.Sprintf("%s=%d,%s", aheadVariable, aheadFD, strings.Repeat("-", planRoom))
	if t.Order.Waits() {
		mark = fmt.Sprintf("%s=%d", readyFDVariable, aheadFD)
	}
	return t.execute(t.Program, t.Order.Command, mark)
}

// await hears a process until it is parked.
func (t *attempt) await(p *Parked) error {
	stop, err := p.within(t.ctx, run.ParkBound)
	if err != nil {
		return err
	}
	defer stop()
	hear := t.converse
	if t.Order.Waits() {
		hear = func(p *Parked) error {
			if _, errRead := p.lines.ReadByte(); errRead != nil {
				return errEnded
			}
			return nil
		}
	}
	if err = p.heed(hear); !errors.Is(err, errEnded) {
		return err
	}
	if most, starved := t.Containment.AheadStarved(); starved {
		return tooLarge(most)
	}
	if last := lastPrinted(p.Out); last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// tooLarge says that the kernel has ended a process for want of memory, of which it may have so many bytes.
func tooLarge(most uint64) error {
	return fmt.Errorf("it needs more than %d MiB of memory before its start, and may have no more", most>>20)
}

// converse hears a process run ahead, until it is parked.
func (t *attempt) converse(p *Parked) error {
	words, err := p.hear()
	if err != nil || words[0] != "hello" {
		return fmt.Errorf("run the script ahead: %w", errors.Join(err, errEnded))
	}
	if err = p.confine(t.Identity); err != nil {
		return fmt.Errorf("keep what runs ahead from writing files: %w", err)
	}
	var told []string
	for _, name := range t.Order.PlannedNames() {
		told = append(told, "planned="+name)
	}
	t.mutex.Lock()
	for _, what := range t.learned.Active() {
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
		case err != nil && t.Loop.Unwanted(): // the shim has ended it, or is about to
			return err
		case err != nil && early:
			t.learn(sdk.EarlyLesson)
			return fmt.Errorf("%w: the process has ended", ErrEarly)
		case err != nil:
			if _, starved := t.Containment.AheadStarved(); importing != "" && !starved { // what has ended it is in there: the next one is parked before
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
				return fmt.Errorf("%w: %s", ErrEarly, words[1])
			}
			return errors.New(words[1])
		case words[0] == "parked" && len(words) > 3:
			p.Place, p.meets = fmt.Sprintf("%s (%s)", cluster.Printable(words[1]), cluster.Printable(words[2])), words[3] == "meets"
			if len(words) > 4 && words[4] == "readers" { // the kernel counts what they have written as the process's own
				p.written = -1
			}
			return nil
		default:
			return fmt.Errorf("what runs ahead says %q", words)
		}
	}
}

// execute starts a process as a worker would be, but for its devices and what a plan tells.
func (t *attempt) execute(program string, argv []string, mark string) (*Parked, error) {
	fail := func(err error) (*Parked, error) {
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
	fail = func(err error) (*Parked, error) {
		return nil, fmt.Errorf("start what runs ahead: %w", errors.Join(err, conn.Close(), out.Close()))
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(null) //nolint:errcheck // as above
	attr := &syscall.ProcAttr{
		Dir: t.Order.Workdir, Env: append(run.Listed(t.env), mark),
		Files: []uintptr{uintptr(null), uintptr(in), uintptr(in), uintptr(pair[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Credential: t.Identity.Cred},
	}
	n, may := t.Loop.MayExecute()
	if !may {
		return fail(errGivenUp)
	}
	var executed *run.Process
	defer func() { t.Loop.Executed(executed) }()
	collect := debug.SetGCPercent(-1) // as where workers are executed
	pid, err := t.Containment.ExecuteAhead(n, program, argv, attr)
	debug.SetGCPercent(collect)
	if err != nil {
		return fail(err)
	}
	process, err := proc.Identify(pid) // a zombie at worst: the loop reaps none before it hears of it
	if err != nil {
		return fail(err)
	}
	executed = &process
	// Not a command of its own, which may have threads and processes: each has a priority.
	if !t.Order.Waits() && proc.Boottime() < t.CalmUntil {
		calm(pid)
	}
	p := &Parked{Process: process, pid: pid, conn: conn, Out: out, env: t.env, written: -1}
	p.lines = bufio.NewReader(&sender{p})
	return p, nil
}

// clear has the loop kill a process that was given up, and what it has left: alone, if others are to stay parked.
func (t *attempt) clear(p *Parked, alone bool) {
	_ = p.Out.Close()
	t.Loop.Clear(p.Process, alone)
	for alone && proc.Alive(p.Process) && t.ctx.Err() == nil { // SIGKILL takes effect at once, but for what the kernel does meanwhile
		time.Sleep(time.Millisecond)
	}
}

func (t *attempt) learn(what string) {
	t.Log.Info().Str("what", cluster.Printable(what)).Msg("the next process that runs ahead is parked before")
	t.mutex.Lock()
	t.learned.Before = append(t.learned.Before, lesson{What: what, Left: 1}) // also where nothing is kept
	t.mutex.Unlock()
	Learn(t.Order.LearnedFile, what)
}
