package run_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// stage is the shell of a story's run: what the story says is so, until it says otherwise. What an action begins has
// happened only when the story says that.
type stage struct {
	state *run.State
	facts run.Facts
	due   run.Due
	told  run.Report
	links int
	full  bool // the disk takes no report
	said  []string
}

// dawn is what both clocks show when a story begins.
var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const start = int64(time.Hour)

// play carries out one line of a story, and has the run decide. It returns false if there is no such word.
func (s *stage) play(words []string) bool {
	opt := options(words[1:])
	word := words[0]
	if word == "run" {
		*s = stage{}
		s.begin(opt)
		s.step()
		return true
	}
	known := s.happens(word, words[1:], opt)
	s.step()
	return known
}

func (s *stage) begin(opt map[string]string) {
	order := run.Order{Version: run.ProtocolVersion, Node: "n1", Strict: opt["strict"] != "", Checkpoint: "/ck"}
	order.World.Job, order.World.Generation = "j", 3
	if text, ok := opt["prepare"]; ok {
		order.Prepare = &run.Prepare{Workers: number(text), Memory: int64(number(opt["memory"])) << 20}
	} else {
		order.World.Members = members(opt)
	}
	if text, ok := opt["deadline"]; ok {
		order.Deadline = start + int64(span(text))
	}
	order.Limits.MemoryBytes = uint64(number(opt["limit"])) << 20
	s.facts = run.Facts{Now: start, Clock: dawn, Looked: run.LookAll, Written: true}
	s.facts.Inside.Empty = true
	s.facts.Workers = make([]run.Worker, processes(order))
	s.state = run.New(order, run.Process{PID: 7}, "cgroup2")
	s.facts.Binding.Done = order.Prepare == nil
	s.told = s.state.Report
}

func members(opt map[string]string) []cluster.Member {
	m := cluster.Member{Node: "n1"}
	for i := range max(1, number(opt["ranks"])) {
		m.Devices = append(m.Devices, cluster.DeviceID("d"+strconv.Itoa(i)))
	}
	return []cluster.Member{m}
}

func processes(o run.Order) int {
	m, _, _ := o.World.Member("n1")
	return len(m.Ranks())
}

// happens changes what is so. Words that name a worker do that by its local rank.
func (s *stage) happens(word string, args []string, opt map[string]string) bool {
	f := &s.facts
	worker := func() *run.Worker { return &f.Workers[number(args[0])] }
	rest := func(n int) string { return strings.Join(args[min(n, len(args)):], " ") }
	failed := func(n int) *record.Failed {
		if len(args) <= n {
			return nil
		}
		return &record.Failed{Kind: record.FailureKind(args[n]), Reason: rest(n + 1)}
	}
	switch word {
	case "pass":
		s.pass(span(args[0]))
	case "wish":
		s.wish(opt)
	case "told":
		f.Told = rest(0)
	case "refused":
		f.Refused = failed(0)
	case "plan":
		order := s.state.Order()
		order.World.Members = members(opt)
		f.Plan = run.Plan{Task: run.Task{Done: true}, Order: order}
		f.Workers = make([]run.Worker, processes(order))
	case "no-plan":
		f.Plan = run.Plan{Task: run.Task{Done: true, Failed: failed(0)}}
	case "bound":
		f.Binding.Task = run.Task{Done: true, Failed: failed(0)}
	case "waits":
		f.Node.Waiting = rest(0)
	case "locking":
		f.Node.Locking = true
	case "checked":
		f.Node = run.NodeCheck{Task: run.Task{Done: true}, Unforkable: opt["cold"]}
	case "unchecked":
		f.Node = run.NodeCheck{Task: run.Task{Done: true, Failed: failed(0)}}
	case "executed":
		for i := range f.Workers {
			if _, all := opt["only"]; !all || opt["only"] == strconv.Itoa(i) {
				f.Workers[i].PID, f.Workers[i].ExecutedAt, f.Inside.Empty = 100+i, f.Clock, false
			}
		}
		_, warm := opt["warm"]
		f.Execution.Done, f.Execution.Warm = opt["only"] == "", warm
		if warm {
			f.Ahead = run.Ahead{}
		}
	case "unexecuted":
		f.Execution.Task = run.Task{Done: true, Failed: failed(0)}
	case "unreleased":
		f.Execution = run.Execution{Task: run.Task{Done: true}, Unreleased: rest(0)}
	case "parked":
		f.Ahead = run.Ahead{Executing: f.Ahead.Executing}
		for range number(args[0]) {
			f.Ahead.Parked = append(f.Ahead.Parked, run.Parked{Place: "train.py:3", Memory: int64(number(opt["each"])) << 20})
		}
		f.Ahead.Living, f.Ahead.Most = len(f.Ahead.Parked), int64(number(opt["each"]))<<20
		f.Ahead.Memory, f.Inside.Empty = f.Ahead.Most*int64(f.Ahead.Living), false
	case "ahead":
		f.Ahead.Working, f.Ahead.Failed = args[0] == "working", ""
		switch args[0] {
		case "working":
			f.Inside.Empty = false
		case "failed":
			f.Ahead.Failed = rest(1)
		case "died":
			f.Ahead.Parked[0].Dead = true
		case "executing":
			f.Ahead.Working, f.Ahead.Executing, f.Inside.Empty = true, true, false
		case "executed":
			f.Ahead.Working, f.Ahead.Executing = true, false
		}
	default:
		return s.workers(word, worker, args, opt)
	}
	return true
}

// workers is what workers do, and what is left of them.
func (s *stage) workers(word string, worker func() *run.Worker, args []string, opt map[string]string) bool {
	f := &s.facts
	switch word {
	case "connect":
		s.links++
		worker().Link, worker().Begun = s.links, nil
		f.Links++
	case "begun":
		begun := int64(number(args[1]))
		worker().Begun = &begun
	case "deaf":
		worker().Deaf = true
	case "stopping":
		worker().StoppedAt = f.Clock
	case "exit":
		w, status := worker(), number(args[1])
		w.Exit, w.ExitedAt, w.How = &record.Exit{Rank: number(args[0]), Code: status}, f.Clock, fmt.Sprintf("exit status %d", status)
		_, w.OutOfMemory = opt["oom"]
		if w.Link != 0 {
			f.Links--
		}
		w.Link = 0
	case "prints":
		worker().Lines = append(worker().Lines, strings.Join(args[1:], " "))
	case "silent":
		worker().Silent = true
	case "unsaved":
		worker().Unsaved, worker().UnsavedFor = "save step 7: read-only file system", record.FailureKind(args[1])
	case "empty":
		f.Inside = run.Inside{Empty: true}
	case "left":
		f.Inside = run.Inside{KillPending: opt["pending"] != ""}
		for _, a := range args {
			if pid, err := strconv.Atoi(a); err == nil {
				f.Inside.Left = append(f.Inside.Left, run.Process{PID: pid})
				f.Inside.Names = append(f.Inside.Names, fmt.Sprintf("pid %d (helper)", pid))
			}
		}
	case "logs":
		f.Logs = args[0] == "open"
	case "links":
		f.Links = number(args[0])
	case "locks":
		f.LocksFree = args[0] == "free"
	case "groups":
		f.GroupsGone = args[0] == "gone"
	case "disk":
		if s.full = args[0] == "full"; !s.full {
			f.Written = true
		}
	default:
		return false
	}
	return true
}

// wish is what an agent wants from now on.
func (s *stage) wish(opt map[string]string) {
	w := run.Wish{Kill: opt["kill"]}
	if text, ok := opt["deadline"]; ok {
		if w.Deadline = fence.Never; text != "never" {
			w.Deadline = s.facts.Now + int64(span(text))
		}
	}
	if how, ok := opt["halt"]; ok {
		_, terminate := opt["terminate"]
		w.Halt = &record.Halt{Why: reason.Said("asked to"), Save: how == "save", Terminate: terminate, At: dawn, Deadline: dawn.Add(time.Minute)}
		if text, ok := opt["stop_after"]; ok {
			after := int64(number(text))
			w.Halt.StopAfter = &after
		}
	}
	_, w.Start = opt["start"]
	_, w.Retire = opt["retire"]
	w.Workers = number(opt["workers"])
	s.facts.Wish = w
}

// pass lets time go by, with a Step whenever the run has asked for one.
func (s *stage) pass(length time.Duration) {
	for end := s.facts.Now + int64(length); s.facts.Now < end; s.step() {
		next := end
		if s.due.At != 0 && s.due.At < end {
			next = max(s.due.At, s.facts.Now+1)
		}
		s.facts.Clock = s.facts.Clock.Add(time.Duration(next - s.facts.Now))
		s.facts.Now = next
	}
}

// step has the run decide until nothing more is due.
func (s *stage) step() {
	for range 100 {
		s.due = s.state.Step(&s.facts)
		for _, a := range s.due.Actions {
			s.says(a.String())
			s.carryOut(a)
		}
		s.report()
		if s.due.Keep && s.full {
			s.facts.Written = false
		}
		if len(s.due.Actions) == 0 {
			if s.due.At != 0 && s.due.At <= s.facts.Now {
				panic("the run wants a Step at a time that is over")
			}
			return
		}
	}
	panic("the run does not come to rest")
}

// carryOut is what an action does at once.
func (s *stage) carryOut(a run.Action) {
	switch a.(type) {
	case run.ReadPlan:
		s.facts.Plan = run.Plan{}
	case run.Bind:
		s.facts.Binding = run.Binding{}
	case run.CheckNode:
		s.facts.Node = run.NodeCheck{}
	case run.Execute:
		s.facts.Execution = run.Execution{}
	case run.Park:
		s.facts.Ahead.Working, s.facts.Ahead.Failed = true, ""
	case run.GiveUp:
		s.facts.Ahead.Parked = nil
	}
}

// says notes what the run does. A kill that is repeated is noted once.
func (s *stage) says(what string) {
	if n := len(s.said); n > 0 && s.said[n-1] == what {
		return
	}
	s.said = append(s.said, what)
}

// report notes what has changed of the report, as far as stories are about it.
func (s *stage) report() {
	was, now := s.told, s.state.Report
	s.told = now
	for _, c := range []struct {
		changed bool
		text    func() string
	}{
		{was.Waiting != now.Waiting && now.Waiting != "", func() string { return "waiting: " + now.Waiting }},
		{was.Deadline != now.Deadline, func() string { return "deadline in force" }},
		{!reflect.DeepEqual(was.Prepared, now.Prepared), func() string {
			p := now.Prepared
			return strings.TrimSpace(fmt.Sprintf("prepared ready=%t workers=%d memory=%d %s", p.Ready, p.Workers, p.Memory>>20, p.Cold))
		}},
		{was.Unforkable != now.Unforkable, func() string { return "cannot run ahead: " + now.Unforkable }},
		{len(was.Workers) != len(now.Workers), func() string { return fmt.Sprintf("workers=%d warm=%t", len(now.Workers), now.Warm) }},
		{was.Held != now.Held, func() string {
			return fmt.Sprintf("held sdk=%t begun=%d deaf=%t", now.Held.SDK, now.Held.Begun, now.Held.Deaf)
		}},
		{was.Failed != now.Failed, func() string {
			f := now.Failed
			text := fmt.Sprintf("failed %s rank=%d: %s", f.Kind, f.Rank, f.Reason)
			if f.OutOfMemory {
				text += " (out of memory)"
			}
			if len(f.LogTail) > 0 {
				text += fmt.Sprintf(" %q", f.LogTail)
			}
			return text
		}},
		{!slices.Equal(was.Leftover, now.Leftover), func() string { return fmt.Sprintf("leftover %q", now.Leftover) }},
		{!slices.Equal(was.Unkillable, now.Unkillable), func() string { return fmt.Sprintf("unkillable %v", now.Unkillable) }},
		{!was.KillPending && now.KillPending, func() string { return "SIGKILL is pending for all of them" }},
		{was.Stopped != now.Stopped, func() string {
			signalled := "never"
			if at := now.Stopped.SignalledAt; !at.IsZero() {
				signalled = at.Sub(dawn).String()
			}
			return fmt.Sprintf("stopped finished=%t exits=%d signalled=%s", now.Stopped.Finished, len(now.Stopped.Exits), signalled)
		}},
	} {
		if c.changed {
			s.said = append(s.said, "report "+c.text())
		}
	}
}

// options are the words of a line that have a value, and those that are there.
func options(words []string) map[string]string {
	opt := map[string]string{}
	for _, w := range words {
		name, value, found := strings.Cut(w, "=")
		if !found {
			value = "yes"
		}
		opt[name] = value
	}
	return opt
}

func number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}
