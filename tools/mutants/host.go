package main

var ofHost = []Mutant{
	{
		Name: "fencing-recorded-after-all-confirmed", File: "agent/host/fencing.go", Tests: "TestTheFencingRecordWaitsForAShimThatHangs",
		Old: "&& agent.Fenced(fe.goals.observed().Runs):", New: ":",
		Breaks: "a node whose shims know no deadline counts as one that fences itself (I1)",
	},
	{
		Name: "agent-kills-past-the-deadline", File: "agent/host/watchdog/watchdog.go", Owner: "agent/host", Tests: "TestTheAgentKillsWhereItsShimDoesNot",
		Old: "if what == agent.KillNothing {", New: "if true {",
		Breaks: "workers of a shim that hangs live past their deadline (I1)",
	},
	{
		Name: "nothing-lives-is-found-out", File: "agent/host/adopt.go", Tests: "TestWhatLivesIsNotStopped",
		Old: "\treturn r.sweep.done && ad.scanned(r.jg) || ad.fresh(r.jg)", New: "\treturn true",
		Breaks: "stopped is said of a run whose directory is lost while its workers live (I1)",
	},
	{
		Name: "look-through-processes-is-awaited", File: "agent/host/adopt.go", Tests: "TestAdoptionDoesNotWait",
		Old: "cmp.Or(found.err, errLooking)", New: "cmp.Or(found.err, nil)",
		Breaks: "stopped is said before processes were looked through for runs without a directory (I1)",
	},
	{
		Name: "adopted-run-is-not-swept", File: "agent/host/adopt.go", Tests: "TestAdoptionDoesNotWait",
		Old: "known || ad.keeps(dir) {", New: "known {",
		Breaks: "a run in good hands is killed because its directory has gone meanwhile",
	},
	{
		Name: "lease-counts-from-sending", File: "agent/host/life.go", Tests: "TestDeadlinesCountFromTheSending",
		Old: "p.renewed, p.deadline = sentAt, l.deadline(sentAt)", New: "p.renewed, p.deadline = sentAt, l.deadline(store.Boottime())",
		Breaks: "a deadline counts from a renewal's answer (I1)",
	},
	{
		Name: "stale-record-is-replaced", File: "agent/host/writer.go", Tests: "TestAcknowledgementOfALostTimelineIsReplaced",
		Old: "exists && nonceOf(there.Value) != nonceOf(ops[0].Value)", New: "exists && false",
		Breaks: "a generation waits for an acknowledgement that its node cannot write (I9)",
	},
	{
		Name: "failed-digest-is-kept", File: "agent/host/saves/saves.go", Owner: "agent/host", Tests: "TestALostSaveIsLostToTheNextAgentToo",
		Old: "if in.conclusive(err) {", New: "if false {",
		Breaks: "files whose fsync failed are digested again and committed (I4)",
	},
	{
		Name: "missing-is-looked-for-as-told", File: "agent/host/probe.go", Tests: "TestWhatAJobNeedsIsToldToBeThere",
		Old: "f.Kind == record.NodeRefused && f.Missing", New: "f.Kind == record.NodeRefused",
		Breaks: "a node says that it is over what its looks cannot see, and is tried again and again",
	},
	{
		Name: "a-lost-run-is-its-owners", File: "agent/host/launch.go", Tests: "TestTheOwnerOfWhatHasLostItsDirectory",
		Old: "owner := la.records.ownerOf(at.Of)", New: "owner := la.records.ownerOf(record.JobGen{})",
		Breaks: "any user's process holds up the end of a generation whose directory is gone (I9)",
	},
	{
		Name: "unswept-devices-stay-withheld", File: "agent/host/runs.go", Tests: "TestAnUnkillableWorkerHoldsItsDeviceOnly",
		Old: "Unswept: r.shim == agent.Dead && !r.sweep.done && r.sweep.unkillable == nil", New: "Unswept: false",
		Breaks: "a device whose worker survives SIGKILL counts as fit after a restart of the agent (I3)",
	},
	{
		Name: "lost-save-is-kept-while-it-can-be-met", File: "agent/host/saves/lost.go", Tests: "TestALostSaveOfWhatIsGoneIsNotKeptForEver",
		Old: "if _, err := os.Lstat(l.dir); !errors.Is(err, os.ErrNotExist) {", New: "if _, err := os.Lstat(l.dir); false && err == nil {",
		Breaks: "a save whose fsync failed is digested again by the next agent (I4)",
	},
}
