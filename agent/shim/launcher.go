package shim

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/internal/pycommand"
	"github.com/bellows-ml/bellows/record"
)

const (
	// importBound is how long a launcher may import, over all its attempts: longer than the
	// slowest frameworks take from a network file system.
	importBound = 5 * time.Minute
	// maxAttempts bounds how often a launcher is started anew without the modules that
	// the one before has found not to be for it.
	maxAttempts = 6
	// memoryPeriod is how often a launcher's memory is looked at.
	memoryPeriod = 250 * time.Millisecond
	// maxPrinted bounds what imports may print: it is printed again by each worker.
	maxPrinted = 32 << 10
	// bareBound is how long a launcher that imports nothing may take.
	bareBound = 10 * time.Second
	// launcherFD is the launcher's end of the socket between it and the shim.
	launcherFD = 3
	// maxLauncherWord bounds a line of the launcher's.
	maxLauncherWord = 1 << 20
	// maxComm is how long the kernel's name for a process may be.
	maxComm = 15
)

// launcher is the process that imports what the workers will need, and forks them. The
// loop owns it, but for what prepare and forkWorkers do while it cannot be taken away.
//
// The workers of a run that was not prepared are forked as well, where the job has warm
// starts: by a bare launcher, which imports nothing. It gains nothing at their start, but at their
// end: a forked worker leaves when its script has ended, where an interpreter with large
// frameworks takes a second to end, in which the next generation waits.
type launcher struct {
	*shared
	*reporter

	killer *killer
	reaper *reaper

	begun     bool
	over      bool  // nothing of it is left, or will be started
	ending    bool  // it is being killed
	by        int64 // when it has to be ready
	looked    int64 // when its memory was last looked at
	calmUntil int64 // from then on it has its share of the processors
	hurried   bool
	working   bool          // prepare goes on beside the loop
	forking   bool          // an attempt executes a process, which cannot be taken back
	found     findings      // what the node has of the needs of a run that was not prepared
	cleared   chan struct{} // an attempt waits for nothing to be left of it
	pauses    pauses
	process   Process // the living one; PID 0 = there is none
	ready     *readyLauncher
}

// readyLauncher is one that waits for its orders.
type readyLauncher struct {
	process Process
	conn    *net.UnixConn
	lines   *bufio.Reader
	env     map[string]string
	list    moduleList
	printed []byte
	out     *os.File // what it prints from then on
}

// settled reports whether it is known if workers can be forked.
func (l *launcher) settled() bool { return !l.begun || l.over || l.ready != nil }

// stepLaunch starts the launcher of a prepared run, watches it, and clears away one
// that was given up.
func (l *launcher) stepLaunch(now int64) {
	switch {
	case !l.order.forks() || l.killer.why != "":
	case l.cleared != nil:
		if l.clear(now) {
			l.process = Process{}
			close(l.cleared)
			l.cleared = nil
		}
	case l.ending && !l.over:
		// Not before no other attempt can follow: workers must not be executed beside one.
		l.over = l.phase != preparing && l.clear(now) && !l.working && l.process.PID == 0
	case l.phase == ready && !l.bare() && l.begun && l.ready == nil && !l.over:
		l.giveUp("its launcher was not ready when it had to start")
	case l.phase != l.begins() || l.over:
	case !l.begun && l.order.Strict && l.wish.Deadline == 0:
	case !l.begun:
		l.begun, l.working, l.by = true, true, now+int64(l.bound())
		l.calmUntil = now + int64(calmFor)
		l.tell(Prepared{})
		l.alarm.at(l.by)
		go l.prepare(l.order, l.found)
	case l.ready == nil && now >= l.by:
		l.giveUp(fmt.Sprintf("its launcher was not ready within %s", l.bound()))
	default:
		l.watch(now)
	}
}

// bare reports whether the run was not prepared.
func (l *launcher) bare() bool { return l.order.Prepare == nil }

// begins is when the launcher is started: a bare one when the locks are held, for it opens no device.
func (l *launcher) begins() phase {
	if l.bare() {
		return ready
	}
	return unbound
}

// bound is how long the launcher may take until it is ready.
func (l *launcher) bound() time.Duration {
	if l.bare() {
		return bareBound
	}
	return importBound
}

// tell reports how far a prepared run is.
func (l *launcher) tell(p Prepared) {
	if !l.bare() {
		l.report.Prepared, l.dirty = &p, true
	}
}

// watch looks at the launcher's memory.
func (l *launcher) watch(now int64) {
	if l.ready == nil {
		l.alarm.at(l.by)
	}
	if l.process.PID == 0 {
		return
	}
	if next := l.looked + int64(memoryPeriod); now < next {
		l.alarm.at(next)
		return
	}
	l.looked = now
	l.alarm.at(now + int64(memoryPeriod))
	if l.ready != nil && !Alive(l.process) {
		l.giveUp("its launcher has ended")
		return
	}
	if l.ready == nil && !l.hurried && now >= l.calmUntil {
		l.hurried = true
		if err := hurry(l.process.PID); err != nil {
			l.log.Warn().Err(err).Msg("the launcher goes on as the last")
		}
	}
	most := launcherMemory(l.order)
	if has := resident(l.process.PID); most > 0 && has > most {
		l.giveUp(fmt.Sprintf("its launcher has %d MiB of memory, and may have %d", has>>20, most>>20))
	}
}

// resident is how much memory of a process is in the machine's, in bytes; 0 if it has ended.
func resident(pid int) int64 {
	b, err := os.ReadFile(proc.file(pid, "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// giveUp has the workers be executed as without a launcher.
func (l *launcher) giveUp(why string) {
	if l.ending {
		return
	}
	l.begun, l.ending = true, true
	l.tell(Prepared{Cold: record.Reason(printable(why))})
	l.log.Info().Str("why", why).Msg("no launcher: workers are executed one by one")
	if l.ready != nil {
		_ = l.ready.conn.Close()
		l.ready, l.process = nil, Process{}
	}
	l.alarm.at(1)
}

// clear kills what is left of a launcher, and all that its imports have started. It
// reports whether nothing is.
func (l *launcher) clear(now int64) bool {
	if err := l.containment.killLaunchers(); err != nil {
		l.log.Error().Err(err).Msg("kill the launcher")
	}
	l.reaper.reap() // also what has ended while it was not to be reaped
	empty, err := l.containment.empty()
	if err != nil {
		l.log.Error().Err(err).Msg("look for what the launcher has left")
	}
	if !empty {
		l.alarm.at(now + l.pauses.next())
	}
	return empty && err == nil
}

// prepare runs beside the loop. Its thread lives as long as the launcher, which dies with it.
func (l *launcher) prepare(order Order, found findings) {
	runtime.LockOSThread() // never unlocked
	ready, err := l.launch(order, found)
	l.post(func() {
		if l.working = false; ready == nil {
			l.process = Process{}
		}
		switch {
		case l.killer.why != "" || l.ending:
			if ready != nil {
				l.process = Process{}
				_ = ready.conn.Close()
			}
		case err != nil:
			if never, ok := errors.AsType[unforkable](err); ok {
				l.report.Unforkable, l.dirty = record.Reason(printable(string(never))), true
			}
			l.giveUp(err.Error())
		default:
			l.ready = ready
			l.tell(Prepared{Ready: true, Memory: resident(ready.process.PID)})
		}
	})
	if ready != nil {
		<-l.done
	}
}

// unforkable is why no launcher can fork workers of a command.
type unforkable string

func (u unforkable) Error() string { return string(u) }

// launch starts launchers until one is ready. Its error is why none will be.
func (l *launcher) launch(order Order, found findings) (_ *readyLauncher, err error) {
	if order.Prepare != nil { // else that was looked at
		started := func(pid int) { l.post(func() { l.containment.apart = pid }) }
		found, err = look{Dir: l.dir, Order: order, waiting: func(string) {}, started: started}.as(l.abort, l.id)
		l.post(func() { l.containment.apart = 0 })
		if err != nil {
			return nil, err
		}
	}
	command := pycommand.Parse(order.Command)
	program, comm := found.Program, ""
	if command.Cold == record.NoScript && len(found.Shebang) > 0 && !order.waits() {
		command = pycommand.Parse(append(append([]string{}, found.Shebang...), append([]string{found.Program}, order.Command[1:]...)...))
		if program = found.Shebang[0]; filepath.Base(program) != "env" {
			comm = filepath.Base(found.Program)
			comm = comm[:min(len(comm), maxComm)]
		}
	}
	if command.Cold != "" && !order.waits() {
		return nil, unforkable(command.Cold)
	}
	if order.NoNewPrivs {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("keep the launcher from new privileges: %w", err)
		}
	}
	if err = writeModules(l.dir, order); err != nil {
		return nil, err
	}
	o := order
	o.Env = maps.Clone(order.Env)
	if o.Env == nil {
		o.Env = map[string]string{}
	}
	maps.Copy(o.Env, found.Secrets)
	a := attempt{launcher: l, order: o, env: lasting(o, l.dir), command: command, program: program, comm: comm}
	if order.Prepare != nil {
		a.list = readModules(order.ModulesFile)
		a.list.add(order.Prepare.Modules)
	}
	return a.untilReady()
}

// attempt is a launcher that is started, perhaps several times.
type attempt struct {
	*launcher

	order   Order
	env     map[string]string
	command pycommand.Command
	program string
	comm    string // as the kernel calls a worker that is executed; empty = as the launcher
	list    moduleList
}

// launcherWord is what a launcher answers.
type launcherWord struct {
	Ready  bool              `json:"ready"`
	Cold   string            `json:"cold"`
	Again  map[string]string `json:"again"`
	Forked int               `json:"forked"`
}

func (a *attempt) untilReady() (*readyLauncher, error) {
	for _, text := range append(listed(a.env), a.order.Command...) {
		if !utf8.ValidString(text) {
			return nil, unforkable("its command or environment is not UTF-8")
		}
	}
	for n := range maxAttempts {
		r, word, err := a.once(n)
		if err != nil || word.Ready {
			return r, err
		}
		if word.Cold != "" {
			return nil, errors.New(word.Cold)
		}
		a.list.avoid(word.Again)
		if a.order.ModulesFile != "" {
			if err := writeDurable(a.order.ModulesFile, a.list); err != nil {
				return nil, fmt.Errorf("write the names of modules: %w", err)
			}
		}
	}
	return nil, fmt.Errorf("its launcher had modules to leave out in each of %d attempts", maxAttempts)
}
