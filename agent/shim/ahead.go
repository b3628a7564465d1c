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

	given     bool  // what runs ahead was given up
	calmUntil int64 // from then on they have their share of the processors
	hurried   bool
	cleared   chan struct{} // what an attempt has left is to be killed
	pauses    pauses
	executed  int           // how many processes were executed, each in a group of its own
	living    []run.Process // those that run ahead or are parked
	parked    []*parked     // those that wait for their orders
}

// begin has so many processes more run ahead.
func (a *ahead) begin(n int) {
	a.facts.Ahead.Working, a.facts.Ahead.Failed = true, ""
	a.calmUntil, a.hurried = Boottime()+int64(calmFor), false
	go a.park(a.order, n)
}

// step does what is due of what goes on beside the loop.
func (a *ahead) step(now int64) {
	if a.cleared != nil && !a.state.Killing() {
		if a.clear(now) {
			a.living = nil
			close(a.cleared)
			a.cleared = nil
		}
	}
	if !a.facts.Ahead.Working || a.given || a.hurried || len(a.living) == 0 {
		return
	}
	if now < a.calmUntil {
		a.alarm.at(a.calmUntil)
		return
	}
	a.hurried = true
	for _, p := range a.living {
		if err := hurry(p.PID); err != nil {
			a.log.Warn().Err(err).Msg("what runs ahead goes on as the last")
		}
	}
}

// look looks at the processes' memory, and whether they live.
func (a *ahead) look() {
	f := &a.facts.Ahead
	f.Parked, f.Living, f.Memory, f.Most = nil, len(a.living), 0, 0
	for _, p := range a.parked {
		f.Parked = append(f.Parked, run.Parked{Place: p.place, Memory: ownMemory(p.process.PID), Dead: !Alive(p.process)})
	}
	for _, p := range a.living {
		has := ownMemory(p.PID)
		f.Memory += has
		f.Most = max(f.Most, has)
	}
}

// giveUp lets go of all that runs ahead.
func (a *ahead) giveUp(g run.GiveUp) {
	a.given = true
	a.log.Info().Str("why", g.Why).Msg("nothing is parked: workers are executed at their start")
	for _, p := range a.parked {
		_ = p.conn.Close()
	}
	a.parked, a.living, a.facts.Ahead.Parked = nil, nil, nil // their pids are others' once they are reaped
	if g.Heavy {
		go learn(a.order.LearnedFile, sdk.EarlyLesson) // the next ones need less
	}
}

// clear kills what runs ahead or is parked, and all that it has started. It reports whether nothing is left.
func (a *ahead) clear(now int64) bool {
	if err := a.containment.killAhead(); err != nil {
		a.log.Error().Err(err).Msg("kill what runs ahead")
	}
	a.reap() // also what has ended while it was not to be reaped
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
		a.facts.Ahead.Working = false
		switch {
		case a.state.Killing() || a.given:
			for _, p := range all {
				_ = p.conn.Close()
			}
		case err != nil:
			a.facts.Ahead.Failed = printable(err.Error())
		default:
			a.parked = append(a.parked, all...)
			a.look()
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
		a.facts.Ahead.Executing = !a.state.Killing() && !a.given
		a.executed++
		said <- answer{a.executed, a.facts.Ahead.Executing}
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
	a.post(func() { said <- a.state.Killing() || a.given })
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
