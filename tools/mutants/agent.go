package main

const agentStories = "TestStories|TestNothingOverlapsWhateverHappens"

var ofAgent = []Mutant{
	{
		Name: "a-prepared-run-waits-for-the-older", File: "agent/prepare.go", Tests: "TestStories/prepared_beside",
		Old: "case !p.othersLive(x):", New: "case true:",
		Breaks: "workers of two generations of a job exist at once (I1)",
	},
	{
		Name: "what-was-prepared-is-verified", File: "agent/prepare.go", Tests: "TestStories/prepared_beside",
		Old: "case x.Plan.Resume != nil && !r.Verified:", New: "case false:",
		Breaks: "a generation starts from a checkpoint that nothing has verified (I5)",
	},
	{
		Name: "a-prepared-run-is-of-one-nonce", File: "agent/prepare.go", Tests: "TestStories/prepared_elsewhere",
		Old: "case !r.unbound() || r.Nonce != g.x.Next.Nonce:", New: "case !r.unbound():",
		Breaks: "what was prepared for one generation is said to be ready for another (I10)",
	},
	{
		Name: "what-must-not-start-is-not-bound", File: "agent/prepare.go", Tests: "TestStories/prepared_halted",
		Old: "told || r.useless() || !p.startable(x) {", New: "told || r.useless() {",
		Breaks: "workers start in a generation that is halted (I1)",
	},
	{
		Name: "what-was-told-to-end-is-not-bound", File: "agent/prepare.go", Tests: "TestStories/prepared_withdrawn",
		Old: `if told := r.Pushed != nil && r.Pushed.Kill != ""; told`, New: "if told := false; told",
		Breaks: "a generation is started with a run that ends, and fails or is taken for finished (I12)",
	},
	{
		Name: "halt-after-end", File: "agent/acknowledge.go", Tests: "TestStories/halt_after_end",
		Old: "x.rank0 && last > newestStep(x.Offers) && x.Halt != nil && x.Halt.Save:", New: "false:",
		Breaks: "a halt waits out its time for a node whose ranks had ended, and costs the save (I5)",
	},
	{
		Name: "older-generations-first", File: "agent/plan.go", Tests: agentStories,
		Old: "case !p.othersLive(x):", New: "default:",
		Breaks: "two generations of a job run on one node (I1)",
	},
	{
		Name: "disowned-ends-are-told", File: "agent/plan.go", Tests: "TestStories/disowned",
		Old: "case !ours && x.Granted:", New: "case false:",
		Breaks: "a job whose plan was deleted by hand waits for ever (I9)",
	},
	{
		Name: "plan-of-this-life", File: "agent/plan.go", Tests: agentStories,
		Old: "x.run.Refused == nil && p.sameLife(x) &&", New: "x.run.Refused == nil &&",
		Breaks: "a plan made for an earlier life of the node is started (I1)",
	},
	{
		Name: "started-once", File: "agent/plan.go", Tests: agentStories,
		Old: "x.Halt == nil && !x.acked() &&", New: "x.Halt == nil &&",
		Breaks: "a generation that has started or was refused starts again (I7)",
	},
	{
		Name: "newest-plan-only", File: "agent/plan.go", Tests: agentStories,
		Old: "&& p.newerPlan(x) == 0", New: "",
		Breaks: "a generation starts although a newer one is planned (I1)",
	},
	{
		Name: "verify-before-start", File: "agent/plan.go", Tests: agentStories,
		Old: "x.Plan.Resume != nil && !x.run.Verified", New: "false",
		Breaks: "workers resume from a checkpoint that was not verified (I5)",
	},
	{
		Name: "permit-to-start", File: "agent/plan.go", Tests: agentStories,
		Old: "return x.Permit && x.Halt == nil", New: "return x.Halt == nil",
		Breaks: "a generation starts without a permit (I1)",
	},
	{
		Name: "permit-to-live", File: "agent/wish.go", Tests: agentStories,
		Old: "case !x.Permit:", New: "case false:",
		Breaks: "a generation whose permit was withdrawn runs on (I1)",
	},
	{
		Name: "lost-lease-kills", File: "agent/wish.go", Tests: agentStories,
		Old: "case !p.sameLife(x) && p.d.Strict:", New: "case false:",
		Breaks: "a new lease prolongs the lives of the old one's workers (I1)",
	},
	{
		Name: "stopped-when-gone", File: "agent/acknowledge.go", Tests: agentStories,
		Old: "if x.run.ended() && savesDone", New: "if savesDone",
		Breaks: "a node acknowledges stopped while its workers live (I1)",
	},
	{
		Name: "stopped-when-saved", File: "agent/acknowledge.go", Tests: agentStories,
		Old: "if x.run.ended() && savesDone", New: "if x.run.ended()",
		Breaks: "the next generation starts before the last save is offered (I5)",
	},
	{
		Name: "strike-past-deadline", File: "agent/fenced.go", Tests: "TestOverdue",
		Old: "|| !fence.Overdue(now, deadline, t.Grace):", New: "|| true:",
		Breaks: "workers of a shim that hangs live past their deadline (I1)",
	},
	{
		Name: "word-needs-echo", File: "agent/fenced.go", Tests: "TestFenced",
		Old: "&& r.Report.Deadline == told", New: "",
		Breaks: "a node gives its word for a shim that never heard of a deadline (I1)",
	},
	{
		Name: "own-life-prolongs", File: "agent/run/protocol.go", Tests: "TestOnlyTheLeaseOfItsOwnLifeProlongsARun",
		Old: "w.Deadline != 0 && planned == life", New: "w.Deadline != 0",
		Breaks: "the lease of a later life prolongs a run (I1)",
	},
	{
		Name: "run-of-this-timeline", File: "agent/plan.go", Tests: "TestStories",
		Old: "\tcase x.strange():", New: "\tcase false:",
		Breaks: "a process of before a restore of etcd is acknowledged for a new plan (I1)",
	},
	{
		Name: "deadline-counts-from-sending", File: "agent/fence/fence.go", Tests: "TestDeadlineCountsFromTheSending",
		Old: "return sent + int64(max(0, ttl-margin))", New: "return sent + int64(max(0, ttl))",
		Breaks: "workers live when the lease expires (I1)",
	},
	{
		Name: "nothing-without-a-run", File: "agent/checkpoint.go", Tests: agentStories,
		Old: "x.run.Shim == Absent || x.Acks.Stopped.Exists()", New: "false",
		Breaks: "a merge without a run ends the agent",
	},
	{
		Name: "absent-is-looked-for", File: "agent/observed.go", Tests: agentStories,
		Old: "\t\treturn r.Swept\n", New: "\t\treturn true\n",
		Breaks: "a run whose directory is lost counts as over while its workers live (I1)",
	},
	{
		Name: "nodes-choose-alike", File: "agent/checkpoint.go", Tests: "TestNodesOfDifferentSpeedsShareSteps",
		Old: "d = choose(pending)", New: "d = pending[len(pending)-1]",
		Breaks: "nodes of different speeds share no step, and nothing is committed (I5)",
	},
}
