package main

// ofWarmStarts are the rules of runs that are prepared before their plan.
var ofWarmStarts = []Mutant{
	{
		Name: "prepared-waits-for-start", File: "agent/shim/bind.go", Tests: "TestAPreparedRunWaitsAndStarts|TestAPreparedRunIsAdopted",
		Old: "case b.wish.Start && b.by == 0:", New: "case b.by == 0:",
		Breaks: "the next generation's workers are executed while the present one's live (I1)",
	},
	{
		Name: "bound-to-its-own-order", File: "agent/shim/bind.go", Tests: "TestBindRefusesOtherOrders",
		Old: "case !sameJSON(unplanned(prepared), unplanned(order)):", New: "case false:",
		Breaks: "a prepared run carries out the order of another generation, or with another owner's rights (I10, I14)",
	},
	{
		Name: "one-plan-for-a-prepared-run", File: "agent/shim/bind.go", Tests: "TestBindRefusesOtherOrders",
		Old: "if !sameJSON(prepared, order) {", New: "if false {",
		Breaks: "a generation is started with two plans (I10)",
	},
	{
		Name: "start-needs-a-plan", File: "agent/shim/bind.go", Tests: "TestAStartWithoutAPlanFails",
		Old: "case order.Prepare == nil || len(order.World.Members) == 0:", New: "case false:",
		Breaks: "a run without members says that it has started",
	},
	{
		Name: "retire-ends-a-prepared-run", File: "agent/shim/bind.go", Tests: "TestAPreparedRunEnds/retire",
		Old: "case b.wish.Retire:", New: "case false:",
		Breaks: "a run that was cleared before its start is left for ever (I12)",
	},
	{
		Name: "no-worker-has-not-finished", File: "agent/shim/end.go", Tests: "TestAPreparedRunEnds/kill",
		Old: "Finished: len(e.workers) > 0,", New: "Finished: true,",
		Breaks: "a job is said to have succeeded although none of its steps was trained (I9)",
	},
	{
		Name: "forked-workers-are-placed", File: "agent/shim/warm.go", Tests: "TestAForkedWorkerSeesWhatAnExecutedOneDoes/system",
		Old: "return s.containment.place(p.pid, local)", New: "return nil",
		Breaks: "a forked worker is outside of its limits and its devices' filter (I3)",
	},
	{
		Name: "changed-environment-is-cold", File: "agent/shim/warm.go", Tests: "TestWhatHasChangedIsReadAgain/env_file",
		Old: "if !maps.Equal(lasting(order, s.dir), r.env) {", New: "if !maps.Equal(r.env, r.env) {",
		Breaks: "modules have been imported with an environment that the workers do not have",
	},
	{
		Name: "cold-starts-wait-for-the-launcher", File: "agent/shim/launcher.go", Tests: "TestAColdStartWaitsUntilTheLauncherIsGone",
		Old: "l.over = l.phase != preparing && l.clear(now) && !l.working && l.process.PID == 0", New: "l.over = true",
		Breaks: "workers are executed beside a launcher that goes on importing, in the same limits",
	},
	{
		Name: "names-of-other-nodes-are-checked", File: "agent/shim/modules.go", Tests: "TestNamesAreTakenFromAnotherNode",
		Old: "l := theirs.checked()", New: "l := theirs",
		Breaks: "what another node says of a job's modules is kept unbounded, and shown as it is",
	},
	{
		Name: "launchers-have-a-bound", File: "agent/shim/launcher.go", Tests: "TestProcessesThatCannotBeForked/memory",
		Old: "most > 0 && has > most", New: "false",
		Breaks: "a launcher takes the memory of the world that trains",
	},
	{
		Name: "glibc-keeps-two-signals", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAThreadThatHasEndedIsNoReason",
		Old: "int(mask, 16) & ~GLIBC_SIGNALS", New: "int(mask, 16)",
		Breaks: "no job whose imports have ever had a thread, as all with PyTorch, starts warm",
	},
	{
		Name: "signals-are-looked-at", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestProcessesThatCannotBeForked/signal",
		Old: "if dispositions() != self.signals or ", New: "if ",
		Breaks: "a worker catches signals that it would not",
	},
	{
		Name: "changed-modules-are-cold", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestWhatHasChangedIsReadAgain",
		Old: "            if stamp(path) != was:", New: "            if False:",
		Breaks: "workers run with modules of before their owner's change",
	},
	{
		Name: "threads-are-not-forked", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestModulesThatAreNotForLaunchers/thread",
		Old: "            if self.threads > 1:", New: "            if False:",
		Breaks: "a worker waits for ever for a lock that a thread had which a fork did not keep",
	},
	{
		Name: "importers-are-found-at-once", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestChainsOfImportsAreFoundAtOnce",
		Old: "        grown = bool(self.excluded)", New: "        grown = False",
		Breaks: "a long chain of imports that leads to a module which is not for launchers makes all of a job's starts cold",
	},
	{
		Name: "open-for-a-moment", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAFileThatIsOpenForAMoment",
		Old: "if len(self.stack) > 1:", New: "if False:",
		Breaks: "transformers is imported by each worker, as it imports a codec while it reads a file",
	},
	{
		Name: "launchers-are-counted", File: "agent/prepare.go", Tests: "TestStories/prepared_memory",
		Old: "if others += p.admitted; others+memory <= p.d.LauncherMemory {", New: "if others += p.admitted; true {",
		Breaks: "launchers of many jobs take a node's memory from the worlds that train",
	},
	{
		Name: "a-kill-stands-before-a-plan", File: "agent/prepare.go", Tests: "TestStories/prepared_again",
		Old: `if w := r.Pushed; w != nil && w.Kill != "" {`, New: `if w := r.Pushed; w != nil && w.Kill == "never" {`,
		Breaks: "a run that ends is said to be ready, and a plan counts on it",
	},
	{
		Name: "what-left-its-group-is-killed", File: "agent/shim/containment.go", Tests: "TestWhatWasMovedOutOfItsGroupIsKilled",
		Old: "find = c.children", New: "return err",
		Breaks: "a process that root has moved out of the run's group keeps the run from ending (I3)",
	},
	{
		Name: "rank-0-is-awaited", File: "agent/shim/warm.go", Tests: "TestRank0IsLetFirst|TestForkedRanksWaitForRank0",
		Old: "if rank := firstRank + i; rank == 1 || rank != 0 && i == 0 {", New: "if false {",
		Breaks: "ranks come before rank 0 listens, and sleep for half a second",
	},
	{
		Name: "only-who-meets-awaits-rank-0", File: "agent/shim/master.go", Tests: "TestWorldsThatMeet",
		Old: "return l.Meets && ", New: "return ",
		Breaks: "the shim connects to a server of the script's own",
	},
	{
		Name: "no-launcher-without-warm-starts", File: "agent/shim/protocol.go", Tests: "TestWorkersLeaveWithoutTearingDown/cold_starts",
		Old: `return o.Prepare != nil || o.ModulesFile != ""`, New: "return true",
		Breaks: "workers of jobs that have switched warm starts off are forked",
	},
	{
		Name: "a-spare-has-to-pay", File: "coordinator/prepare.go", Tests: "TestStories/prepared_spare",
		Old: "return !in.clock.Before(end)", New: "return true",
		Breaks: "a job of seconds has its modules imported once more, for nothing",
	},
	{
		Name: "nothing-is-prepared-of-other-commands", File: "coordinator/prepare.go", Tests: "TestStories/prepared_no_script",
		Old: "in.paused().Exists() || unforkable(in) {", New: "in.paused().Exists() {",
		Breaks: "a job that runs no Python script has a process wait on each of its nodes, for nothing",
	},
	{
		Name: "the-kernel-bounds-launchers", File: "agent/shim/launchbound.go", Tests: "TestTheKernelBoundsALauncher",
		Old: "return bounded(b.dir).enter(attr)", New: "return func() {}, nil",
		Breaks: "an import takes the memory of the world that trains before it is seen to",
	},
	{
		Name: "workers-leave-the-launchers-bound", File: "agent/shim/containment.go", Tests: "TestTheKernelBoundsALauncher",
		Old: "dirs = append(dirs, c.launcher.rest)", New: "dirs = append(dirs, []string{}...)",
		Breaks: "a forked worker has no more memory than its launcher might have had",
	},
	{
		Name: "launchers-are-calm", File: "agent/shim/launchtry.go", Tests: "TestALauncherIsCalm",
		Old: "calm(pid)", New: "_ = pid",
		Breaks: "the world that trains is slower while the next one is prepared",
	},
	{
		Name: "workers-are-not-calm", File: "agent/shim/launchtry.go", Tests: "TestALauncherIsCalm",
		Old: "err = hurry(r.process.PID)", New: "err = nil",
		Breaks: "forked workers have the lowest priority",
	},
	{
		Name: "one-process-waits", File: "agent/shim/parked.go", Tests: "TestACommandThatWaitsInVain",
		Old: "if n := len(s.workers); n != 1 {", New: "if n := len(s.workers); n < 1 {",
		Breaks: "a generation is said to have started whose other processes were never executed",
	},
	{
		Name: "what-waited-is-the-worker", File: "agent/shim/warm.go", Tests: "TestACommandThatWaits$",
		Old: "if !l.order.waits() {", New: "if true {",
		Breaks: "each start from a command that waits kills it",
	},
	{
		Name: "what-waits-is-placed", File: "agent/shim/parked.go", Tests: "TestACommandThatWaits$",
		Old: "s.containment.place(p.pid, 0)", New: "nil",
		Breaks: "a worker that has waited is outside of its limits and its devices' filter (I3)",
	},
}
