package shim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/pycommand"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
)

const (
	// parkBound is how long a process may run ahead until it is parked: longer than the
	// slowest frameworks take to be imported from a network file system.
	parkBound = 5 * time.Minute
	// memoryPeriod is how often the memory of parked processes is looked at.
	memoryPeriod = 250 * time.Millisecond
	// maxPrinted bounds what a process may print before it is parked: it stays in a pipe until its rank is known.
	maxPrinted = 256 << 10
)

// ahead is the part that has a prepared run's processes run ahead, and keeps them parked. The loop owns it, but
// for what park and release do while it cannot be taken away.
//
// A parked process is the worker itself, executed early: with the job's own command, as its owner, in the
// run's containment, but without devices and without what only a plan tells. It has run the script up to the
// first place where that would look at anything that a plan, another process or the moment decides, or would change
// anything outside (sdk/ahead.py). At START it is told the plan, and goes on from there. No process is
// forked: what a script computes before that place it computes as in any start.
type ahead struct {
	*shared
	*reporter

	killer *killer
	reaper *reaper

	begun     bool
	over      bool  // nothing is parked, or will be
	ending    bool  // what is parked is being killed
	by        int64 // when all have to be parked
	looked    int64 // when their memory was last looked at
	calmUntil int64 // from then on they have their share of the processors
	hurried   bool
	working   bool          // park goes on beside the loop
	cleared   chan struct{} // what an attempt has left is to be killed
	pauses    pauses
	executed  int           // how many processes were executed, each in a group of its own
	living    []run.Process // those that run ahead or are parked
	parked    []*parked     // those that wait for their orders
}

// wanted is how many processes should be parked.
func (a *ahead) wanted() int { return max(1, a.order.Prepare.Workers, a.wish.Workers) }

// settled reports whether the preparation is over: workers can be released, or the start will be cold.
func (a *ahead) settled() bool {
	return !a.begun || a.over || !a.working && len(a.parked) > 0 && !a.ending
}

// stepAhead has a prepared run's processes run ahead, watches them, and clears away what was given up.
func (a *ahead) stepAhead(now int64) {
	switch {
	case a.order.Prepare == nil || a.killer.why != "":
	case a.cleared != nil:
		if a.clear(now) {
			a.living = nil
			close(a.cleared)
			a.cleared = nil
		}
	case a.ending && !a.over:
		// Not before no other can be executed: workers must not be executed beside one.
		if a.phase != preparing && a.clear(now) && !a.working {
			a.over, a.living = true, nil
		}
	case a.phase == ready && (a.working || a.begun && len(a.parked) == 0) && !a.over:
		a.giveUp("it was not parked when it had to start")
	case a.phase != unbound || a.over:
	case !a.begun && a.order.Strict && a.wish.Deadline == 0:
	case !a.working && len(a.parked) < a.wanted():
		if a.tell(run.Prepared{}); a.begun {
			a.tell(a.state()) // those that are parked wait on
		}
		a.begun, a.working, a.by = true, true, now+int64(parkBound)
		a.calmUntil, a.hurried = now+int64(calmFor), false
		a.alarm.at(a.by)
		go a.park(a.order, a.wanted()-len(a.parked))
	case a.working && now >= a.by:
		a.giveUp(fmt.Sprintf("it was not parked within %s", parkBound))
	default:
		a.watch(now)
	}
}

// state is what is told of the parked processes.
func (a *ahead) state() run.Prepared {
	p := run.Prepared{Ready: true, Workers: len(a.parked)}
	for _, each := range a.parked {
		p.Memory += ownMemory(each.process.PID)
	}
	if len(a.parked) > 0 {
		p.Parked = a.parked[0].place
	}
	return p
}

// tell reports how far a prepared run is.
func (a *ahead) tell(p run.Prepared) { a.report.Prepared, a.dirty = &p, true }

// watch looks at the processes' memory, and whether they live.
func (a *ahead) watch(now int64) {
	if a.working {
		a.alarm.at(a.by)
	}
	if len(a.living) == 0 {
		return
	}
	if next := a.looked + int64(memoryPeriod); now < next {
		a.alarm.at(next)
		return
	}
	a.looked = now
	a.alarm.at(now + int64(memoryPeriod))
	for _, p := range a.parked {
		if !Alive(p.process) {
			a.giveUp("what was parked has ended")
			return
		}
	}
	if a.working && !a.hurried && now >= a.calmUntil {
		a.hurried = true
		for _, p := range a.living {
			if err := hurry(p.PID); err != nil {
				a.log.Warn().Err(err).Msg("what runs ahead goes on as the last")
			}
		}
	}
	var all int64
	for _, p := range a.living {
		has := ownMemory(p.PID)
		if most := int64(a.order.Limits.MemoryBytes); most > 0 && has > most { //nolint:gosec // as large as the kernel's own numbers
			a.giveUp(fmt.Sprintf("it has %d MiB of memory before its start, and a worker may have %d", has>>20, most>>20))
			go learn(a.order.LearnedFile, sdk.EarlyLesson) // the next ones need less
			return
		}
		all += has
	}
	if most := a.order.Prepare.Memory; most > 0 && all > most {
		a.giveUp(fmt.Sprintf("%d parked processes have %d MiB of memory, and may have %d", len(a.living), all>>20, most>>20))
		go learn(a.order.LearnedFile, sdk.EarlyLesson) // the next ones need less
	}
}

// giveUp has the workers be executed as without a preparation.
func (a *ahead) giveUp(why string) {
	if a.ending {
		return
	}
	a.begun, a.ending = true, true
	a.tell(run.Prepared{Cold: record.Reason(printable(why))})
	a.log.Info().Str("why", why).Msg("nothing is parked: workers are executed at their start")
	for _, p := range a.parked {
		_ = p.conn.Close()
	}
	a.parked = nil
	a.alarm.at(1)
}

// clear kills what runs ahead or is parked, and all that it has started. It reports whether nothing is left.
func (a *ahead) clear(now int64) bool {
	if err := a.containment.killAhead(); err != nil {
		a.log.Error().Err(err).Msg("kill what runs ahead")
	}
	a.reaper.reap() // also what has ended while it was not to be reaped
	empty, err := a.containment.empty()
	if err != nil {
		a.log.Error().Err(err).Msg("look for what ran ahead")
	}
	if !empty {
		a.alarm.at(now + a.pauses.next())
	}
	return empty && err == nil
}

// park runs beside the loop. Its thread lives as long as the processes, which die with it.
func (a *ahead) park(order run.Order, n int) {
	runtime.LockOSThread() // never unlocked
	all, err := a.parkAll(order, n)
	a.post(func() {
		a.working = false
		switch {
		case a.killer.why != "" || a.ending:
			for _, p := range all {
				_ = p.conn.Close()
			}
		case err != nil:
			a.giveUp(err.Error())
		default:
			a.parked = append(a.parked, all...)
			a.tell(a.state())
		}
	})
	<-a.done
}

// interpreted is a command as that of a Python interpreter, and the program that is executed for it. Cold is
// why no process of it can run ahead.
func interpreted(words []string, found findings) (command pycommand.Command, program string) {
	command = pycommand.Parse(words)
	if command.Cold == record.NoScript && len(found.Shebang) > 0 {
		whole := append(append([]string{}, found.Shebang...), append([]string{found.Program}, words[1:]...)...)
		return pycommand.Parse(whole), found.Shebang[0]
	}
	return command, found.Program
}

// atOnce is how many processes run ahead at once: half of the processors are left to the world that trains. A node of
// eight devices would otherwise be ready after eight times an import, which is longer than the leader waits.
var atOnce = max(1, runtime.NumCPU()/2)

// parkAll executes processes until n are parked. If it cannot, it returns an error and leaves none parked.
func (a *ahead) parkAll(order run.Order, n int) (all []*parked, err error) {
	started := func(pid int) { a.post(func() { a.containment.apart = pid }) }
	found, err := look{Dir: a.dir, Order: order, waiting: func(string) {}, started: started}.as(a.abort, a.id)
	a.post(func() { a.containment.apart = 0 })
	if err != nil {
		return nil, err
	}
	command, program := interpreted(order.Command, found)
	if command.Cold != "" && !order.Waits() {
		return nil, errors.New(command.Cold)
	}
	if order.NoNewPrivs {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("keep what runs ahead from new privileges: %w", err)
		}
	}
	if err = writeModules(a.dir, order); err != nil {
		return nil, err
	}
	o := order
	o.Env = maps.Clone(order.Env)
	if o.Env == nil {
		o.Env = map[string]string{}
	}
	maps.Copy(o.Env, found.Secrets)
	t := attempt{ahead: a, order: o, env: lasting(o, a.dir), program: found.Program, learned: readLearned(order.LearnedFile)}
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
		at := min(n-len(all), atOnce)
		if len(all) == 0 {
			at = 1
		}
		more, err := t.several(at)
		if err == nil && len(more) == 0 {
			if again { // it was told to import nothing early
				err = errEarly
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

// mayExecute asks the loop whether a process is still wanted. From then on the loop waits for executed.
func (a *ahead) mayExecute() (n int, may bool) {
	type answer struct {
		n   int
		may bool
	}
	said := make(chan answer, 1)
	a.post(func() {
		a.forking = a.killer.why == "" && !a.ending
		a.executed++
		said <- answer{a.executed, a.forking}
	})
	select {
	case got := <-said:
		return got.n, got.may
	case <-a.done:
		return 0, false
	}
}

// unwanted asks the loop whether what runs ahead was given up, or is to end with the run.
func (a *ahead) unwanted() bool {
	said := make(chan bool, 1)
	a.post(func() { said <- a.killer.why != "" || a.ending })
	select {
	case is := <-said:
		return is
	case <-a.done:
		return true
	}
}

// within bounds what is heard of a process by the run's end, and by a time.
func (a *ahead) within(p *parked, bound time.Duration) (stop func() bool, err error) {
	if err = p.conn.SetDeadline(time.Now().Add(bound)); err != nil {
		return nil, err
	}
	return context.AfterFunc(a.abort, func() { _ = p.conn.SetDeadline(time.Unix(0, 1)) }), nil
}

// ownMemory is how much memory a process has in the machine's that it shares with no other, in bytes; 0 if it has ended.
func ownMemory(pid int) int64 {
	b, err := os.ReadFile(proc.file(pid, "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 3 {
		return 0
	}
	all, errAll := strconv.ParseInt(fields[1], 10, 64)
	shared, errShared := strconv.ParseInt(fields[2], 10, 64)
	if errAll != nil || errShared != nil {
		return 0
	}
	return max(0, all-shared) * int64(os.Getpagesize())
}
