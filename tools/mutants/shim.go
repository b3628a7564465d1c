package main

var ofShim = []Mutant{
	{
		Name: "groups-in-use-are-tried-again", File: "agent/shim/machine.go", Tests: "TestGroupsInUseAreRemovedLater",
		Old: "case errors.Is(err, unix.EBUSY) && now < m.clearBy:", New: "case errors.Is(err, unix.EBUSY) && now < 0:",
		Breaks: "cgroups stay for good where a process of others was in one when the run ended",
	},
	{
		Name: "looks-leave-no-lock", File: "agent/devicelock/locks.go", Tests: "TestAForkedProcessKeepsNoLock",
		Old: "err = errors.Join(err, unlock(f))", New: "err = errors.Join(err, f.Close())",
		Breaks: "a sweep returns while a forked process keeps the device's lock (I3)",
	},
	{
		Name: "lock-names-its-run", File: "agent/devicelock/locks.go", Owner: "agent/shim", Tests: "TestOrphansKeepTheirDevice",
		Old: "was.Run != \"\" && was.Run != t.Claim.Run && was.Run != t.gone", New: "false",
		Breaks: "a device is taken while processes of a killed shim's run live (I3)",
	},
	{
		Name: "one-shim-a-run", File: "agent/rundir/record.go", Owner: "agent/shim", Tests: "TestARunHasOneShim|TestAShimThatComesAfterTheSweep",
		Old: "err = durable.Create(filepath.Join(dir, ShimFile), append(b, '\\n'), 0o600)", New: "err = durable.Write(filepath.Join(dir, ShimFile), append(b, '\\n'), 0o600)",
		Breaks: "two shims host one run (I1)",
	},
	{
		Name: "owner-of-the-rank", File: "agent/shim/link.go", Tests: "TestStrangersAreRefused|TestWhatWorkersMayNotSay",
		Old: "if !slices.Contains(k.lineage, w.fact.PID) {", New: "if false {",
		Breaks: "a process that is no worker speaks for a rank (I14)",
	},
	{
		Name: "words-after-the-end", File: "agent/shim/link.go", Tests: "TestTheWordsOfAWorkerThatHasEndedCount",
		Old: "if !slices.Contains(k.lineage, w.fact.PID) {", New: "if !w.runs() || !slices.Contains(k.lineage, w.fact.PID) {",
		Breaks: "what a short script reports is lost",
	},
	{
		Name: "no-log-holds-the-kill", File: "agent/shim/serve.go", Tests: "TestAKillWaitsForNoLog",
		Old: "zerolog.New(lines))", New: "zerolog.New(os.Stderr))",
		Breaks: "a log on a disk that hangs holds up the fence (I1)",
	},
	{
		Name: "no-file-holds-the-kill", File: "agent/shim/machine.go", Tests: "TestTheDeadlineHoldsWhateverHangs",
		Old: "\t\tgo l.giveBack(m.starter.locks)\n", New: "\t\tl.giveBack(m.starter.locks)\n",
		Breaks: "a lock on a disk that hangs holds up the fence (I1)",
	},
	{
		Name: "second-shim-ends-nothing", File: "agent/shim/holder.go", Tests: "TestARunHasOneShim",
		Old: "case status == neverBegan:", New: "case false:",
		Breaks: "the holder of a shim that came second kills the run that the first one hosts (I11)",
	},
	{
		Name: "holder-ends-what-is-left", File: "agent/shim/holder.go", Tests: "TestWhatOutlivesItsShimIsKilledAtOnce/weak_files=there",
		Old: "status != 0 || proc.HasChildren()", New: "false && proc.HasChildren()",
		Breaks: "a wrapper's child outlives agent and shim (I1)",
	},
	{
		Name: "unkillable-is-proved", File: "agent/proc/kill.go", Tests: "TestWhatHasSIGKILLPending",
		Old: "set&kill != 0", New: "set != 0",
		Breaks: "a process that may run on counts as dead (I1)",
	},
	{
		Name: "sweep-does-not-guess", File: "agent/sweep/sweep.go", Owner: "agent/shim", Tests: "TestSweepDoesNotGuess",
		Old: "\t\terr = s.hidden(nil)\n", New: "\t\terr = nil\n",
		Breaks: "what cannot be seen counts as gone (I1)",
	},
	{
		Name: "a-mark-is-its-owners", File: "agent/sweep/traces.go", Owner: "agent/shim", Tests: "TestAnotherUsersMarkIsNone",
		Old: " && mayRunAs(p.PID, owner)", New: "",
		Breaks: "any user keeps another's run from being stopped",
	},
	{
		Name: "user-work-is-the-users", File: "agent/precheck/look.go", Owner: "agent/shim", Tests: "TestTheOwnersRightsCountAndNotTheShims",
		Old: "\tif id.Cred == nil {\n", New: "\tif true {\n",
		Breaks: "root opens what a user names (I14)",
	},
	{
		Name: "unread-is-unknown", File: "agent/sweep/census.go", Tests: "TestAProcessThatCannotBeReadIsNotWaitedFor|TestReadsThatDoNotEndAreBounded",
		Old: "shows[p.PID] = shown{err: ErrNoAnswer}", New: "shows[p.PID] = shown{}",
		Breaks: "a process that could not be read counts as none of the run's (I1)",
	},
	{
		Name: "a-user-takes-no-more-reads-than-a-share", File: "agent/sweep/census.go", Tests: "TestAUsersUnfinishedReadsAreBounded",
		Old: " || o.hasItsShare(p.PID)", New: "",
		Breaks: "one user's processes that hang hide all others from sweeps and kills (I1)",
	},
	{
		Name: "a-look-begins-after-the-question", File: "agent/sweep/census.go", Tests: "TestManyShareALook",
		Old:    "s.next, s.busy = nil, now != nil\n\t\ts.mu.Unlock()\n\t\tif now == nil {\n\t\t\treturn\n\t\t}\n\t\tnow.value, now.err = s.find()\n",
		New:    "s.busy = now != nil\n\t\ts.mu.Unlock()\n\t\tif now == nil {\n\t\t\treturn\n\t\t}\n\t\tnow.value, now.err = s.find()\n\t\ts.mu.Lock()\n\t\ts.next = nil\n\t\ts.mu.Unlock()\n",
		Breaks: "a sweep goes by a look that began before it has killed anything, or before a process was there (I1)",
	},
	{
		Name: "out-of-memory-by-the-limit", File: "agent/shim/exits.go", Tests: "TestAWorkerThatWantsTooMuchMemoryIsKilled",
		Old: "describeStarved(status, limit), true", New: "describeStarved(status, limit), false",
		Breaks: "a size that has no room in its limit of memory is tried again, and uses restarts up",
	},
	{
		Name: "one-child-of-a-kind-is-left", File: "agent/child/child.go", Tests: "TestAChildThatDoesNotEndIsLeft",
		Old: "if n := r.Left(); n > 0 {", New: "if n := r.Left(); n > 1 {",
		Breaks: "a file system that hangs takes a thread and a process more with each try",
	},
}
