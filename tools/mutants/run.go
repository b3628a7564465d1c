package main

// aRun plays a run without any process, so that one of these mutants takes a second.
const aRun = "TestStories|TestStorms"

var ofRun = []Mutant{
	{
		Name: "fencing-deadline", File: "agent/run/kill.go", Tests: aRun,
		Old: "case fence.Expired(f.Now, s.wish.Deadline):", New: "case false && fence.Expired(f.Now, s.wish.Deadline):",
		Breaks: "a cut-off node's workers live on (I1)",
	},
	{
		Name: "the-deadline-wakes-the-run", File: "agent/run/kill.go", Tests: aRun,
		Old: "\t\ts.at(s.wish.Deadline)\n", New: "",
		Breaks: "workers die at the next event after the deadline, whenever that is (I1)",
	},
	{
		Name: "kills-are-repeated", File: "agent/run/kill.go", Tests: aRun,
		Old: "\tdue.at(k.next)\n", New: "",
		Breaks: "what was forked while its parent was killed lives on (I1, I12)",
	},
	{
		Name: "a-check-that-hangs-spares-nothing", File: "agent/run/kill.go", Tests: aRun,
		Old: "if !s.Killing() || s.killed.gone {", New: "if !s.Killing() || s.killed.gone || s.phase == checking {",
		Breaks: "what is parked outlives the deadline on a node whose file system hangs (I1)",
	},
	{
		Name: "the-first-failure-is-told", File: "agent/run/kill.go", Tests: aRun,
		Old: "if s.Report.Failed == nil && s.Report.Stopped == nil && !s.Killing() {", New: "if s.Report.Stopped == nil && !s.Killing() {",
		Breaks: "a job is charged with the second of two failures",
	},
	{
		Name: "what-a-kill-causes-is-no-failure", File: "agent/run/kill.go", Tests: aRun,
		Old: "if s.Report.Failed == nil && s.Report.Stopped == nil && !s.Killing() {", New: "if s.Report.Failed == nil && s.Report.Stopped == nil {",
		Breaks: "a job is charged with what the kill of its workers has caused",
	},
	{
		Name: "what-is-not-looked-at-is-not-known", File: "agent/run/run.go", Tests: aRun,
		Old: "return f.Looked&what == what", New: "return f != nil",
		Breaks: "a run says that it has stopped since nothing was left when that was last looked at (I1, I12)",
	},
	{
		Name: "the-end-looks-inside", File: "agent/run/end.go", Tests: aRun,
		Old: "if !s.look(f, LookInside) {", New: "if s.look(f, LookInside); false {",
		Breaks: "the same, at the end alone",
	},
	{
		Name: "a-new-connection-is-told-again", File: "agent/run/halt.go", Tests: aRun,
		Old: "w.Link != 0 && r.stop != w.Link {", New: "w.Link != 0 && r.stop == 0 {",
		Breaks: "a rank that connects again in a halt waits for its last step until the halt is over",
	},
	{
		Name: "the-last-word-to-stop-counts", File: "agent/run/run.go", Tests: aRun,
		Old: "\t\tif w.StoppedAt.After(s.signalledAt) {\n", New: "\t\tif s.signalledAt.IsZero() {\n",
		Breaks: "a save is said to have taken the time before the last rank was told, too",
	},
	{
		Name: "what-is-parked-late-is-told", File: "agent/run/ahead.go", Tests: aRun,
		Old: "case !a.ending && len(f.Ahead.Parked) > 0:", New: "case false:",
		Breaks: "show does not say where the script of a warm start was parked",
	},
	{
		Name: "no-start-before-deadline", File: "agent/run/start.go", Tests: aRun,
		Old: "case s.order.Strict && s.wish.Deadline == 0:", New: "case false:",
		Breaks: "workers start before the node has told a deadline (I1)",
	},
	{
		Name: "deadline-is-kept", File: "agent/run/run.go", Tests: aRun,
		Old: "w.Deadline = cmp.Or(w.Deadline, was.Deadline)", New: "w.Deadline = cmp.Or(w.Deadline)",
		Breaks: "a wish without a deadline takes the known one away (I1)",
	},
	{
		Name: "halt-is-kept", File: "agent/run/run.go", Tests: aRun,
		Old: "\t\tw.Halt = was.Halt\n", New: "",
		Breaks: "a halt is taken back by an agent that has not read it yet (I9)",
	},
	{
		Name: "a-halt-has-an-end", File: "agent/run/halt.go", Tests: aRun,
		Old: "case f.Now >= s.halt.ends:", New: "case false:",
		Breaks: "a script that does not stop keeps its devices until the leader withdraws the permit",
	},
	{
		Name: "held-when-all-have-answered", File: "agent/run/halt.go", Tests: aRun,
		Old: "complete = complete && w.Begun != nil", New: "_ = complete",
		Breaks: "the leader names a last step that a rank is already beyond (I9)",
	},
	{
		Name: "hold-before-welcome", File: "agent/run/halt.go", Tests: aRun,
		Old: "\t\tif s.halt.seen != 0 {\n", New: "\t\tif false {\n",
		Breaks: "a rank that connects during a halt begins a step that the others never take (I9)",
	},
	{
		Name: "stopped-when-empty", File: "agent/run/end.go", Tests: aRun,
		Old: "\t\tif !f.Inside.Empty {\n", New: "\t\tif false {\n",
		Breaks: "stopped is said while processes live (I1, I12)",
	},
	{
		Name: "stopped-when-locks-are-free", File: "agent/run/end.go", Tests: aRun,
		Old: "\tif f.LocksFree {\n", New: "\tif true {\n",
		Breaks: "the next run waits for a device that is said to be free",
	},
	{
		Name: "the-end-waits-for-what-takes-locks", File: "agent/run/end.go", Tests: aRun,
		Old: "s.Killing() && !f.Node.Locking", New: "s.Killing()",
		Breaks: "a run says that it has stopped, and takes its devices' locks after that (I3)",
	},
	{
		Name: "no-worker-has-not-finished", File: "agent/run/end.go", Tests: aRun,
		Old: "Finished: len(s.ranks) > 0,", New: "Finished: true,",
		Breaks: "a job is said to have succeeded although none of its steps was trained (I9)",
	},
	{
		Name: "what-was-told-to-stop-has-not-finished", File: "agent/run/end.go", Tests: aRun,
		Old: "exit.Code == 0 && !r.told", New: "exit.Code == 0 && (!r.told || true)",
		Breaks: "a job is said to have succeeded that was halted (I9)",
	},
	{
		Name: "a-failure-waits-for-why", File: "agent/run/fail.go", Tests: aRun,
		Old: "if (!looked || !f.worker(local).Silent) && f.Now < s.fails.by {", New: "if !looked {",
		Breaks: "a full disk uses restarts up where a worker's exit is heard of before its last message",
	},
	{
		Name: "out-of-memory-words", File: "agent/run/fail.go", Tests: aRun,
		Old: "w.Exit != nil && w.Exit.Code != 0) && ranOut(w.Lines)", New: "w.Exit != nil && w.Exit.Code != 0) && false",
		Breaks: "a size that has no room in its devices' memory is tried again, and uses restarts up",
	},
	{
		Name: "out-of-memory-in-a-halt-is-told", File: "agent/run/fail.go", Tests: aRun,
		Old: "case s.fails.inHalt && !failed.OutOfMemory:", New: "case s.fails.inHalt:",
		Breaks: "a save that has no room in memory is tried again and again in ever smaller worlds",
	},
	{
		Name: "a-failure-ends-its-peers", File: "agent/run/fail.go", Tests: aRun,
		Old: "|| f.Wish.Halt != nil; !s.fails.inHalt {", New: "|| f.Wish.Halt != nil; false {",
		Breaks: "the peers of a worker that has failed wait for it until their own time is over",
	},
	{
		Name: "prepared-waits-for-start", File: "agent/run/start.go", Tests: aRun,
		Old: "\tcase s.wish.Start:\n", New: "\tdefault:\n",
		Breaks: "the next generation's workers are executed while the present one's live (I1)",
	},
	{
		Name: "retire-ends-a-prepared-run", File: "agent/run/start.go", Tests: aRun,
		Old: "\tcase s.wish.Retire:\n", New: "\tcase false:\n",
		Breaks: "a run that was cleared before its start is left for ever (I12)",
	},
	{
		Name: "a-file-system-that-hangs-is-told", File: "agent/run/start.go", Tests: aRun,
		Old: "\tif f.Now < s.by {\n", New: "\tif true {\n",
		Breaks: "the leader never hears why a node does not start",
	},
	{
		Name: "cold-starts-wait-for-what-ran-ahead", File: "agent/run/ahead.go", Tests: aRun,
		Old: "if s.look(f, LookInside) && f.Inside.Empty && !a.asked {", New: "if true {",
		Breaks: "workers are executed beside a process that runs ahead, in the same limits",
	},
	{
		Name: "what-runs-ahead-has-a-deadline", File: "agent/run/ahead.go", Tests: aRun,
		Old: "case !a.begun && s.order.Strict && s.wish.Deadline == 0:", New: "case false:",
		Breaks: "a cut-off node does not know when what runs ahead has to be dead",
	},
	{
		Name: "parked-memory-is-looked-at", File: "agent/run/ahead.go", Tests: aRun,
		Old: "case most > 0 && f.Ahead.Memory > most:", New: "case false:",
		Breaks: "what is parked takes the memory of the world that trains",
	},
	{
		Name: "the-dead-are-missed", File: "agent/run/ahead.go", Tests: aRun,
		Old: "\t\tif p.Dead {\n", New: "\t\tif p.Dead && false {\n",
		Breaks: "a node is said to be ready that has nothing parked",
	},
	{
		Name: "more-are-parked", File: "agent/run/ahead.go", Tests: aRun,
		Old: "max(1, s.order.Prepare.Workers, s.wish.Workers)", New: "max(1, s.order.Prepare.Workers)",
		Breaks: "a job that grows on a node has as many processes ready there as before",
	},
	{
		Name: "storm-forks-while-killed", File: "agent/run/storm_test.go", Tests: "TestStorms",
		Old: `s.misfortune(20, "forked while it was killed")`, New: "false",
		Breaks: "no storm has a process that a kill misses",
	},
	{
		Name: "storm-hangs", File: "agent/run/storm_test.go", Tests: "TestStorms",
		Old: `s.misfortune(3, "hangs")`, New: "false",
		Breaks: "no storm has a file system that hangs",
	},
}
