package run_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// storm is a run on a node on which everything takes its time, comes in any order and goes wrong: processes fork while
// they are killed or do not die, file systems hang, logs stay open, agents say whatever an agent may say. After each
// Step the promises of the package are checked.
type storm struct {
	state *run.State
	facts run.Facts
	due   run.Due
	order run.Order
	rng   *rand.Rand
	did   map[string]int
	log   []string
	fault error
	calm  bool // from now on everything ends

	now    time.Duration
	agenda []appointment

	ahead    int  // processes that run ahead or are parked
	children int  // what workers have started
	stuck    bool // SIGKILL ends nothing
	plain    bool // the script knows no SDK
	deaf     bool // nor does it catch SIGTERM
	dead     bool // a parked process has ended
	silent   map[int]bool
	links    int
	locked   bool // the run has its devices' locks
	logsOpen bool
	started  bool // a worker was executed
	halted   time.Duration
	killing  bool          // it was, at the last Step
	killed   time.Duration // when SIGKILL was last sent
	lived    time.Duration // since when processes live, and the run is being killed
	held     map[int]int   // over which connection each rank was held
	left     bool
}

type appointment struct {
	at time.Duration
	do func()
}

// leastOf is how often each thing happens at least in 4,000 storms: about half of what it does as this is written. What no
// longer happens would otherwise pass unseen.
var leastOf = map[string]int{
	"Abort":                      2000,
	"Bind":                       597,
	"CheckNode":                  1353,
	"Execute":                    1095,
	"GiveUp":                     515,
	"Hold":                       383,
	"Kill":                       6144,
	"KillAhead":                  4723,
	"Leave":                      2000,
	"Park":                       846,
	"ReadPlan":                   696,
	"RemoveGroups":               2000,
	"ReturnLocks":                2000,
	"SIGKILL does nothing":       1577,
	"StopAfter":                  123,
	"StopLogs":                   354,
	"Terminate":                  113,
	"Welcome":                    1172,
	"a log stays open":           1435,
	"a save has failed":          1113,
	"exit":                       3512,
	"forked while it was killed": 229,
	"halt":                       4049,
	"hangs":                      269,
	"held":                       249,
	"kill":                       1147,
	"node refused":               145,
	"not bound":                  62,
	"not executed":               345,
	"not parked":                 123,
	"not parked for long":        49,
	"out of memory":              111,
	"plan unreadable":            71,
	"stopped":                    2000,
	"the shim is told to end":    1075,
	"unreleased":                 21,
	"warm start":                 89,
	"what was parked dies":       326,
}

func TestStorms(t *testing.T) {
	seeds := uint64(4000)
	did := map[string]int{}
	for seed := range seeds {
		s := newStorm(seed, did)
		if s.play(); s.fault != nil {
			t.Fatalf("seed %d: %v\n%s", seed, s.fault, strings.Join(s.log[max(0, len(s.log)-60):], "\n"))
		}
	}
	for what, least := range leastOf {
		if did[what] < least {
			t.Errorf("%q happened %d times, and should have %d times at least", what, did[what], least)
		}
	}
	t.Log(did)
}

func newStorm(seed uint64, did map[string]int) *storm {
	s := &storm{rng: rand.New(rand.NewPCG(seed, 35)), did: did, now: time.Hour, halted: -1, held: map[int]int{}, silent: map[int]bool{}}
	s.order = run.Order{Version: run.ProtocolVersion, Node: "n1", Strict: s.chance(80), Checkpoint: "/ck"}
	s.order.World.Job, s.order.World.Generation = "j", 3
	if s.chance(50) {
		s.order.Prepare = &run.Prepare{Workers: 1 + s.rng.IntN(3)}
	} else {
		s.order.World.Members = s.members()
	}
	if s.chance(70) {
		s.order.Deadline = int64(s.now + s.upTo(time.Minute))
	}
	s.plain = s.chance(40)
	s.deaf = s.plain && s.chance(50)
	s.facts.Written, s.facts.Binding.Done = true, s.order.Prepare == nil
	s.facts.Workers = make([]run.Worker, processes(s.order))
	s.state = run.New(s.order, run.Process{PID: 7}, "")
	return s
}

func (s *storm) members() []cluster.Member {
	m := cluster.Member{Node: "n1"}
	for i := range 1 + s.rng.IntN(4) {
		m.Devices = append(m.Devices, cluster.DeviceID(fmt.Sprint(i)))
	}
	return []cluster.Member{m}
}

func (s *storm) chance(percent int) bool { return s.rng.IntN(100) < percent }

// misfortune is a fault, now and then.
func (s *storm) misfortune(percent int, what string) bool {
	if s.calm || !s.chance(percent) {
		return false
	}
	s.did[what]++
	return true
}

func (s *storm) upTo(most time.Duration) time.Duration {
	if s.rng.IntN(4) == 0 {
		return 0
	}
	return time.Duration(s.rng.Int64N(int64(most)))
}

func (s *storm) note(format string, args ...any) {
	what, _, _ := strings.Cut(format, " %")
	s.did[what]++
	s.log = append(s.log, fmt.Sprintf("%v %s", s.now-time.Hour, fmt.Sprintf(format, args...)))
}

func (s *storm) breaks(format string, args ...any) {
	if s.fault == nil {
		s.fault = fmt.Errorf(format, args...)
	}
}

// after has something happen, and the run look at it.
func (s *storm) after(d time.Duration, do func()) {
	s.agenda = append(s.agenda, appointment{s.now + d, do})
}

// play is a storm: misfortunes for a while, then a kill that nothing stands in the way of.
func (s *storm) play() {
	s.step()
	for end := s.now + 2*time.Minute; s.now < end && s.fault == nil && !s.left; {
		s.pass(s.upTo(5 * time.Second))
		s.happen()
		s.step()
	}
	s.calm, s.stuck, s.logsOpen = true, false, false
	s.facts.Wish.Kill, s.facts.Wish.Retire = "the storm is over", true
	s.step()
	for end := s.now + 2*time.Minute; s.now < end && s.fault == nil && !s.left; {
		s.pass(time.Second)
	}
	if s.fault == nil && (!s.left || s.state.Report.Stopped == nil) {
		s.breaks("it has not come to its end: stopped %v, left %t, %d processes", s.state.Report.Stopped, s.left, s.living())
	}
}

// pass lets time go by: what is on the agenda happens, and the run is asked when it wanted to be.
func (s *storm) pass(length time.Duration) {
	for end := s.now + length; s.now < end && s.fault == nil; {
		next, who := end, -1
		for i, a := range s.agenda {
			if a.at < next {
				next, who = a.at, i
			}
		}
		if at := time.Duration(s.due.At); s.due.At != 0 && at < next {
			next, who = max(at, s.now+1), -1
		} else if poll := s.now + 100*time.Millisecond; s.due.Look != 0 && poll < next {
			next, who = poll, -1
		}
		s.now = next
		if who >= 0 {
			do := s.agenda[who].do
			s.agenda = append(s.agenda[:who], s.agenda[who+1:]...)
			do()
		}
		s.step()
	}
}

// living is how many processes of the run there are.
func (s *storm) living() int {
	n := s.ahead + s.children
	for _, w := range s.facts.Workers {
		if w.PID != 0 && w.Exit == nil {
			n++
		}
	}
	return n
}

func (s *storm) step() {
	for range 50 {
		f := &s.facts
		f.Now, f.Clock, f.Looked = int64(s.now), dawn.Add(s.now), s.due.Look
		s.look(f.Looked)
		if s.living() == 0 || !s.state.Killing() {
			s.lived = s.now
		}
		before := s.state.Report
		s.due = s.state.Step(f)
		s.check(&before)
		for _, a := range s.due.Actions {
			s.log = append(s.log, fmt.Sprintf("%v   %s", s.now-time.Hour, a))
			s.carryOut(a)
		}
		if len(s.due.Actions) == 0 && s.due.Look&^f.Looked == 0 {
			if s.due.At != 0 && s.due.At <= int64(s.now) {
				s.breaks("the run wants a Step %v ago", s.now-time.Duration(s.due.At))
			}
			return
		}
	}
	s.breaks("the run does not come to rest: %v", s.due.Actions)
}

// look brings those facts up to date that were asked for, and no others: they are as they were when that was last so.
func (s *storm) look(what run.Look) {
	f := &s.facts
	if what&run.LookInside != 0 {
		f.Inside.Empty = s.living() == 0
	}
	if what&run.LookNames != 0 {
		f.Inside.Left, f.Inside.Names, f.Inside.KillPending = nil, nil, s.stuck
		for i := range s.living() {
			f.Inside.Left = append(f.Inside.Left, run.Process{PID: 100 + i})
			f.Inside.Names = append(f.Inside.Names, fmt.Sprintf("pid %d", 100+i))
		}
	}
	if what&run.LookOutput != 0 {
		f.Logs = s.logsOpen
		for i := range f.Workers {
			f.Workers[i].Silent = s.silent[i]
		}
	}
	if what&run.LookSignals != 0 {
		for i := range f.Workers {
			f.Workers[i].Deaf = s.deaf
		}
	}
	if what&run.LookAhead != 0 {
		for i := range f.Ahead.Parked {
			f.Ahead.Parked[i].Dead = s.dead && i == 0
		}
	}
}

// check holds what a Step has said against what is so.
func (s *storm) check(before *run.Report) {
	now := &s.state.Report
	if now.Stopped != nil && before.Stopped == nil {
		s.did["stopped"]++
		if n := s.living(); n > 0 {
			s.breaks("it says that it has stopped, and %d processes live", n)
		}
		if s.locked {
			s.breaks("it says that it has stopped, and has its devices' locks")
		}
		for _, w := range s.facts.Workers {
			if now.Stopped.Finished && (w.Exit == nil || w.Exit.Code != 0) {
				s.breaks("it has finished with a worker that has not: %+v", w)
			}
		}
	}
	if now.Held != nil && before.Held == nil {
		s.did["held"]++
		for i, w := range s.facts.Workers {
			if w.PID != 0 && w.Exit == nil && w.Link != 0 && w.Begun == nil {
				s.breaks("it says that its ranks are held, and %d has not answered", i)
			}
			if now.Held.Deaf != s.deaf && s.state.Running() && w.PID != 0 && w.Exit == nil && w.Link == 0 && s.links == 0 {
				s.breaks("its ranks are said to be deaf: %t, and are %t", now.Held.Deaf, s.deaf)
			}
			if w.Begun != nil && *w.Begun > now.Held.Begun {
				s.breaks("rank %d has begun step %d, and %d is said to be the newest", i, *w.Begun, now.Held.Begun)
			}
		}
	}
	// The run must be killing what lives past the deadline.
	deadline := s.facts.Wish.Deadline
	if deadline == 0 {
		deadline = now.Deadline
	}
	if s.order.Strict && deadline != 0 && fence.Expired(int64(s.now), deadline) && s.living() > 0 && !s.state.Killing() {
		s.breaks("%d processes live past the deadline", s.living())
	}
	if s.state.Killing() && s.living() > 0 && s.now > max(s.killed, s.lived)+2*time.Second {
		s.breaks("%d processes live since %v, and SIGKILL was last sent at %v", s.living(), s.lived-time.Hour, s.killed-time.Hour)
	}
	if now.Failed != nil && before.Failed == nil && s.killing && len(now.Failed.Unkillable) == 0 && now.Failed.Kind != record.WorkerFailed && now.Failed.Kind != record.NoSpace {
		s.breaks("a failure is reported that came when the run was being killed already: %+v", now.Failed)
	}
	s.killing = s.state.Killing()
	if now.Failed != nil && before.Failed != nil && now.Failed != before.Failed {
		s.breaks("another failure is reported than the first")
	}
}

// carryOut does one thing, or has it take its time.
func (s *storm) carryOut(a run.Action) {
	f := &s.facts
	s.did[strings.TrimPrefix(fmt.Sprintf("%T", a), "run.")]++
	switch a := a.(type) {
	case run.ReadPlan:
		f.Plan = run.Plan{}
		s.after(s.slow(), func() {
			order := s.order
			order.World.Members = s.members()
			f.Plan = run.Plan{Task: run.Task{Done: true, Failed: s.refusal("plan unreadable")}, Order: order}
			f.Workers = make([]run.Worker, processes(order))
		})
	case run.Bind:
		f.Binding = run.Binding{}
		s.after(s.slow(), func() { f.Binding.Task = run.Task{Done: true, Failed: s.refusal("not bound")} })
	case run.CheckNode:
		f.Node = run.NodeCheck{}
		s.after(s.slow(), func() {
			if failed := s.refusal("node refused"); failed != nil || s.state.Killing() {
				f.Node = run.NodeCheck{Task: run.Task{Done: true, Failed: failed}}
				return
			}
			f.Node.Locking, s.locked = true, true
			s.after(s.slow(), func() { f.Node = run.NodeCheck{Task: run.Task{Done: true}} })
		})
	case run.Execute:
		s.execute()
	case run.Park:
		s.park(a.Processes)
	case run.GiveUp:
		f.Ahead.Parked, f.Ahead.Living = nil, 0
	case run.KillAhead, run.Kill:
		s.killed = s.now
		s.kill()
	case run.Welcome:
		if w := f.Workers[a.Local]; s.halted >= 0 && w.Begun == nil && s.held[a.Local] != w.Link {
			s.breaks("rank %d is welcomed in a halt before it is held", a.Local)
		}
	case run.Hold:
		link := f.Workers[a.Local].Link
		s.held[a.Local] = link
		s.after(s.slow(), func() {
			if w := &f.Workers[a.Local]; w.Link == link && link != 0 {
				begun := int64(s.rng.IntN(50))
				w.Begun = &begun
			}
		})
	case run.StopAfter:
		s.after(s.slow(), func() {
			f.Workers[a.Local].StoppedAt = dawn.Add(s.now)
			s.after(s.slow(), func() { s.exit(a.Local, 0) })
		})
	case run.Terminate:
		s.after(s.slow(), func() { s.exit(a.Local, 143) })
	case run.ReturnLocks:
		if s.living() > 0 {
			s.breaks("the locks are returned, and %d processes live", s.living())
		}
		s.after(s.slow(), func() { s.locked, f.LocksFree = false, true })
	case run.StopLogs:
		s.logsOpen = s.logsOpen && s.chance(50)
	case run.RemoveGroups:
		s.after(s.slow(), func() { f.GroupsGone = true })
	case run.Leave:
		s.left = true
		if s.living() > 0 || s.state.Report.Stopped == nil {
			s.breaks("the shim leaves %d processes, stopped %v", s.living(), s.state.Report.Stopped)
		}
	}
}

// slow is how long something takes that goes on beside the run. What touches a file system may hang for a minute.
func (s *storm) slow() time.Duration {
	if s.misfortune(3, "hangs") {
		return time.Minute
	}
	return s.upTo(time.Second)
}

func (s *storm) refusal(what string) *record.Failed {
	if !s.misfortune(10, what) {
		return nil
	}
	return &record.Failed{Kind: record.NodeRefused, Reason: what}
}

// execute starts the workers one after the other, or releases what is parked.
func (s *storm) execute() {
	f := &s.facts
	switch {
	case s.state.Killing():
		s.breaks("workers are executed while the run is being killed")
	case s.order.Strict && s.state.Report.Deadline == 0:
		s.breaks("workers are executed without a deadline")
	case len(f.Workers) == 0:
		s.breaks("workers are executed without a plan")
	case s.started:
		s.breaks("workers are executed twice")
	case !s.locked:
		s.breaks("workers are executed without the devices' locks")
	case len(f.Ahead.Parked) == 0 && s.ahead > 0:
		s.breaks("workers are executed beside %d processes that ran ahead", s.ahead)
	}
	f.Execution = run.Execution{}
	warm := len(f.Ahead.Parked) > 0
	if warm && s.misfortune(20, "unreleased") {
		s.after(s.upTo(time.Second), func() { f.Execution = run.Execution{Task: run.Task{Done: true}, Unreleased: "train.csv has changed"} })
		return
	}
	if warm {
		s.did["warm start"]++
		s.ahead, f.Ahead = 0, run.Ahead{}
	}
	var next func(local int)
	next = func(local int) {
		failed := s.refusal("not executed")
		if failed == nil && local < len(f.Workers) && (!s.state.Killing() || s.chance(50)) {
			s.started = true
			f.Workers[local].PID, f.Workers[local].ExecutedAt = 1000+local, dawn.Add(s.now)
			s.after(s.upTo(100*time.Millisecond), func() { next(local + 1) })
			if !s.plain {
				s.after(s.upTo(5*time.Second), func() { s.connect(local) })
			}
			return
		}
		f.Execution = run.Execution{Task: run.Task{Done: true, Failed: failed}, Warm: warm}
	}
	s.after(s.upTo(time.Second), func() { next(0) })
}

func (s *storm) park(n int) {
	f := &s.facts
	if s.state.Killing() || s.order.Strict && s.state.Report.Deadline == 0 {
		s.breaks("processes run ahead that no deadline ends, or that are to die")
	}
	f.Ahead.Working, f.Ahead.Executing, f.Ahead.Failed = true, true, ""
	s.after(s.upTo(100*time.Millisecond), func() {
		f.Ahead.Executing = false
		s.ahead += n
		takes := s.upTo(20 * time.Second)
		if s.misfortune(5, "not parked for long") {
			takes = 6 * time.Minute
		}
		s.after(takes, func() {
			f.Ahead.Working = false
			if s.ahead == 0 || s.misfortune(20, "not parked") {
				f.Ahead.Failed = "it cannot be parked"
				return
			}
			for range s.ahead - len(f.Ahead.Parked) {
				f.Ahead.Parked = append(f.Ahead.Parked, run.Parked{Place: "train.py:3"})
			}
			f.Ahead.Living = s.ahead
		})
	})
}

// kill is SIGKILL to all that lives now. What forks at that moment is missed.
func (s *storm) kill() {
	if s.stuck {
		return
	}
	pids, children, ahead := map[int]bool{}, s.children, s.ahead
	for i, w := range s.facts.Workers {
		pids[i] = w.PID != 0 && w.Exit == nil
	}
	s.after(s.upTo(30*time.Millisecond), func() {
		forks := s.living() > 0 && s.ahead == 0
		for i := range s.facts.Workers {
			if pids[i] {
				s.exit(i, -1)
			}
		}
		s.children -= min(children, s.children)
		s.ahead -= min(ahead, s.ahead)
		if forks && s.misfortune(20, "forked while it was killed") {
			s.children++
		}
	})
}

func (s *storm) connect(local int) {
	if w := &s.facts.Workers[local]; w.PID != 0 && w.Exit == nil {
		s.links++
		if w.Link == 0 {
			s.facts.Links++
		}
		w.Link, w.Begun = s.links, nil
	}
}

func (s *storm) exit(local, status int) {
	w := &s.facts.Workers[local]
	if w.PID == 0 || w.Exit != nil {
		return
	}
	w.Exit, w.ExitedAt, w.How = &record.Exit{Rank: local, Code: status}, dawn.Add(s.now), fmt.Sprintf("exit status %d", status)
	w.OutOfMemory = s.misfortune(5, "out of memory")
	s.after(s.upTo(time.Second), func() {
		s.silent[local] = true
		if w.Link != 0 {
			w.Link = 0
			s.facts.Links--
		}
	})
}

// happen is something that an agent wants, that workers do, or that goes wrong.
func (s *storm) happen() {
	f := &s.facts
	local := 0
	if n := len(f.Workers); n > 0 {
		local = s.rng.IntN(n)
	}
	switch n := s.rng.IntN(40); {
	case n < 14:
		f.Wish.Deadline = int64(s.now + 20*time.Second + s.upTo(40*time.Second))
	case n < 16:
		f.Wish.Deadline = 0 // by an agent that does not know it yet
	case n < 18 && s.state.Running():
		s.note("halt")
		at := dawn
		f.Wish.Halt = &record.Halt{Why: reason.Said("to grow"), Save: s.chance(90), At: at, Deadline: at.Add(s.upTo(time.Minute))}
	case n < 22 && f.Wish.Halt != nil && s.state.Report.Held != nil:
		h := *f.Wish.Halt
		if h.Terminate = s.plain; !s.plain {
			last := s.state.Report.Held.Begun
			h.StopAfter = &last
		}
		f.Wish.Halt = &h
	case n < 24:
		f.Wish.Halt = nil // by an agent that has not read it yet
	case n < 25 && s.chance(50):
		s.note("kill")
		f.Wish.Kill = "its permit was withdrawn"
	case n < 26:
		f.Wish.Kill = ""
	case n < 30:
		f.Wish.Start = true
	case n < 31:
		f.Wish.Workers = s.rng.IntN(4)
	case n < 33 && s.state.Running() && len(f.Workers) > 0:
		status := []int{0, 0, 1}[s.rng.IntN(3)]
		s.note("exit %d of %d", status, local)
		s.exit(local, status)
	case n < 34 && s.living() > 0 && s.ahead == 0:
		s.children++
	case n < 35 && s.state.Running() && !s.plain && len(f.Workers) > 0:
		s.connect(local)
	case n < 36 && len(f.Workers) > 0 && s.misfortune(30, "a save has failed"):
		f.Workers[local].Unsaved, f.Workers[local].UnsavedFor = "save step 7", record.NoSpace
	case n < 37 && s.misfortune(20, "a log stays open"):
		s.logsOpen = true
	case n < 38 && s.misfortune(20, "SIGKILL does nothing"):
		s.stuck = true
		s.after(s.upTo(30*time.Second), func() { s.stuck = false })
	case n < 39 && len(f.Ahead.Parked) > 0 && !s.dead && s.ahead > 0:
		s.note("what was parked dies")
		s.dead = true
		s.ahead--
	case s.misfortune(10, "the shim is told to end"):
		f.Told = "SIGTERM"
	}
	if f.Wish.Halt != nil && s.halted < 0 {
		s.halted = s.now
	}
}
