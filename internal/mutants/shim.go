package main

var ofShim = []Mutant{
	{
		Name: "fencing-deadline", File: "agent/shim/machine.go", Tests: "TestDeadlineKills",
		Old: "if fence.Expired(now, m.wish.Deadline) {", New: "if false && fence.Expired(now, m.wish.Deadline) {",
		Breaks: "a cut-off node's workers live on (I1)",
	},
	{
		Name: "no-start-before-deadline", File: "agent/shim/machine.go", Tests: "TestAPatientStrictStart",
		Old: "m.order.Strict && m.wish.Deadline == 0:", New: "false:",
		Breaks: "workers start before the node has told a deadline (I1)",
	},
	{
		Name: "deadline-is-kept", File: "agent/shim/machine.go", Tests: "TestAnUnknownDeadlineLeavesTheKnownOne",
		Old: "w.Deadline = before.Deadline", New: "_ = before",
		Breaks: "a wish without a deadline takes the known one away (I1)",
	},
	{
		Name: "halt-is-kept", File: "agent/shim/machine.go", Tests: "TestAHaltsTimeRunsOn",
		Old: "w.Halt = before.Halt", New: "_ = before",
		Breaks: "a halt is taken back by an agent that has not read it yet (I9)",
	},
	{
		Name: "stopped-when-empty", File: "agent/shim/end.go", Tests: "TestEscapedChildrenDieWithTheWorkers|TestLeftoversAreNamedAndKilled",
		Old: "if m.emptySince == 0 && !m.emptied(now) {", New: "if false {",
		Breaks: "stopped is said while processes live (I1, I12)",
	},
	{
		Name: "lock-names-its-run", File: "agent/shim/locks.go", Tests: "TestOrphansKeepTheirDevice",
		Old: "was.Run != \"\" && was.Run != t.me.Run && was.Run != t.gone", New: "false",
		Breaks: "a device is taken while processes of a killed shim's run live (I3)",
	},
	{
		Name: "one-shim-a-run", File: "agent/shim/serve.go", Tests: "TestARunHasOneShim|TestAShimThatComesAfterTheSweep",
		Old: "err = os.Link(tmp, path) // unlike a rename it replaces nothing", New: "err = os.Rename(tmp, path)",
		Breaks: "two shims host one run (I1)",
	},
	{
		Name: "hold-before-welcome", File: "agent/shim/link.go", Tests: "TestDuringAHaltTheHoldComesBeforeTheWelcome",
		Old: "if s.m.haltSeen != 0 {", New: "if false {",
		Breaks: "a rank that connects during a halt begins a step that the others never take (I9)",
	},
	{
		Name: "owner-of-the-rank", File: "agent/shim/link.go", Tests: "TestStrangersAreRefused|TestWhatWorkersMayNotSay",
		Old: "|| !descends(int(k.cred.Pid), w.PID)", New: "",
		Breaks: "a process that is no worker speaks for a rank (I14)",
	},
}
