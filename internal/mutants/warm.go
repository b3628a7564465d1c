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
		Name: "recorded-names-are-bounded", File: "agent/shim/modules.go", Tests: "TestWhatIsRecordedIsBounded",
		Old: "r.size += n; r.size > record.MaxModules", New: "r.size += n; false",
		Breaks: "a worker has its shim read without end",
	},
	{
		Name: "names-are-on-no-disk", File: "agent/shim/modules.go", Tests: "TestAWorkerThatWritesManyNames",
		Old: "unix.Mkfifo(r.path, 0o600)", New: "os.WriteFile(r.path, nil, 0o600)",
		Breaks: "a user fills the disk that agents keep their data on",
	},
	{
		Name: "full-pipes-block-no-worker", File: "sdk/site_record.py", Owner: "agent/shim", Tests: "TestAFullPipeBlocksNoWorker",
		Old: "os.O_APPEND | os.O_NONBLOCK", New: "os.O_APPEND",
		Breaks: "a script waits for its shim to read names of modules",
	},
	{
		Name: "names-of-other-nodes-are-checked", File: "agent/shim/modules.go", Tests: "TestNamesAreTakenFromAnotherNode",
		Old: "l := theirs.checked()", New: "l := theirs",
		Breaks: "what another node says of a job's modules is kept unbounded, and shown as it is",
	},
	{
		Name: "launchers-have-a-bound", File: "agent/shim/launcher.go", Tests: "TestALaunchersMemoryIsLookedAt",
		Old: "most > 0 && has > most", New: "false",
		Breaks: "a launcher takes the memory of the world that trains",
	},
	{
		Name: "glibc-keeps-two-signals", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAThreadThatHasEndedIsNoReason",
		Old: "int(mask, 16) & ~GLIBC_SIGNALS", New: "int(mask, 16)",
		Breaks: "no job whose imports have ever had a thread, as all with PyTorch, starts warm",
	},
	{
		Name: "imports-see-the-arguments", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAForkedWorkerSeesWhatAnExecutedOneDoes/script",
		Old: "        self.pose(not self.is_module)\n", New: "        self.argv = list(sys.argv)\n",
		Breaks: "a module that reads sys.argv when it is imported has no arguments: the job trains with its defaults",
	},
	{
		Name: "shared-memory-is-not-forked", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestModulesThatAreNotForLaunchers/(lock|memory)",
		Old: "for _, path in shared - self.shared:", New: "for _, path in shared - shared:",
		Breaks: "all workers of a node wait for one lock, and write into the same memory",
	},
	{
		Name: "texts-of-the-environment", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestModulesThatAreNotForLaunchers/settings",
		Old: "        setattr(Planned, _name, tracked(_name))", New: "        pass",
		Breaks: "a module that keeps a changed copy of the environment has no rank in it",
	},
	{
		Name: "the-folder-is-looked-at", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestProcessesThatCannotBeForked/folder",
		Old: "if os.getcwd() != self.cwd:", New: "if False:",
		Breaks: "a worker whose import changes the working directory writes its files elsewhere",
	},
	{
		Name: "the-umask-is-looked-at", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestProcessesThatCannotBeForked/umask",
		Old: "if umask != self.umask:", New: "if False:",
		Breaks: "a worker whose import changes the umask writes files that others cannot read",
	},
	{
		Name: "the-arguments-are-looked-at", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestProcessesThatCannotBeForked/arguments",
		Old: "if sys.argv != self.argv or", New: "if",
		Breaks: "a script gets arguments that an import has taken out",
	},
	{
		Name: "open-files-are-written", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestWhatAScriptLeavesOpenIsWritten/warm",
		Old: "    finish_files()\n", New: "",
		Breaks: "the end of what a script wrote is lost with its process",
	},
	{
		Name: "the-main-module-is-dropped", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestWhatAScriptLeavesOpenIsWritten/warm",
		Old: "    drop_main()\n", New: "",
		Breaks: "what a script's objects do at their end is not done",
	},
	{
		Name: "verify-waits-for-what-it-kills", File: "internal/verify/left.go", Owner: "internal/verify", Tests: "TestAGroupEnds|TestUntilNothingLives",
		Old: "\t\ttime.Sleep(leftPause)\n", New: "\t\treturn nil\n",
		Breaks: "the next world meets locks and ports of the last one",
	},
	{
		Name: "a-zip-file-holds-its-main", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAZipFileIsRun",
		Old: "os.path.isdir(script) or bool(zipimport.zipimporter(script))", New: "os.path.isdir(script)",
		Breaks: "python app.zip fails where its workers are forked",
	},
	{
		Name: "the-shim-adopts-through-a-wrapper", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAnInterpreterBehindAWrapper",
		Old: "fork_all(channel, launcher, workers, order[\"shim\"])", New: "fork_all(channel, launcher, workers, os.getppid())",
		Breaks: "each start of an interpreter behind a wrapper takes 15 s",
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
		Old: "if others+memory <= g.d.LauncherMemory {", New: "if true {",
		Breaks: "launchers of many jobs take a node's memory from the worlds that train",
	},
	{
		Name: "a-kill-stands-before-a-plan", File: "agent/prepare.go", Tests: "TestStories/prepared_again",
		Old: `if w := r.Pushed; w != nil && w.Kill != "" {`, New: `if w := r.Pushed; w != nil && w.Kill == "never" {`,
		Breaks: "a run that ends is said to be ready, and a plan counts on it",
	},
	{
		Name: "what-ended-without-an-agent-is-prepared-anew", File: "agent/prepare.go", Tests: "TestStories/prepared_found_ended",
		Old: "if !r.Earlier && !g.saidCold() && !g.saidReady() {", New: "if !g.saidCold() && !g.saidReady() {",
		Breaks: "a job is halted for a node that is back from a loss and says that it starts cold",
	},
	{
		Name: "words-of-what-ended-are-taken-back", File: "agent/prepare.go", Tests: "TestStories/prepared_found_ended",
		Old: "case r.useless() && r.Earlier && g.saidReady():", New: "case false:",
		Breaks: "a generation is said to start cold where it could be prepared once more",
	},
	{
		Name: "what-would-end-again-is-not-prepared", File: "agent/prepare.go", Tests: "TestStories/prepared_in_vain",
		Old: "if !r.Earlier && !g.saidCold() && !g.saidReady() {", New: "if false {",
		Breaks: "a launcher that ends by itself before it is ready is started again and again",
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
		Old: "left, err := g.enter(attr)", New: "left, err := func(any) func() { return func() {} }(g), error(nil)",
		Breaks: "an import takes the memory of the world that trains before it is seen to",
	},
	{
		Name: "launchers-open-no-device", File: "agent/shim/launchbound.go", Tests: "TestNoDeviceIsOpenedBeforeThePlan",
		Old: "c.keepLauncher(name, o.DeviceFiles), ", New: "",
		Breaks: "what a launcher imports opens devices of other jobs, and its workers keep them open (I3)",
	},
	{
		Name: "launchers-start-few-processes", File: "agent/shim/launchbound.go", Tests: "TestALaunchersProcessesAreBounded",
		Old: ", c.boundProcesses(name, o)", New: "",
		Breaks: "an import that forks without end takes the node's processes",
	},
	{
		Name: "v2-bounds-launchers-processes", File: "agent/shim/launchbound.go", Tests: "TestALaunchersProcessesInCgroupV2",
		Old: `err = set(c.path, "pids.max", most)`, New: "_ = most",
		Breaks: "with cgroup v2 an import that forks without end takes the node's processes",
	},
	{
		Name: "launchers-have-a-workers-processors", File: "agent/shim/launchbound.go", Tests: "TestALaunchersProcessesAreBounded",
		Old: ", c.boundCPUs(name, o)", New: "",
		Breaks: "a launcher takes more of the processors than its job asked for",
	},
	{
		Name: "workers-leave-the-launchers-bound", File: "agent/shim/containment.go", Tests: "TestTheKernelBoundsALauncher",
		Old: "dirs = append(dirs, g.rest)", New: "dirs = append(dirs, []string{}...)",
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
	{
		Name: "cuda-is-not-forked", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestProcessesThatCannotBeForked/cuda",
		Old: `if name.startswith((b"libcuda.so", b"libnvidia-ml.so")):`, New: "if False:",
		Breaks: "workers are forked of a process that has touched CUDA, and cannot use it",
	},
	{
		Name: "processes-of-imports-are-seen", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestProcessesThatCannotBeForked/process",
		Old: `            return "an import has started a process"`, New: "            pass",
		Breaks: "a module has a child in the launcher, and none in the worker",
	},
	{
		Name: "imports-print-little", File: "agent/shim/launchtry.go", Tests: "TestProcessesThatCannotBeForked/prints",
		Old: "if err == nil && c.tooMuch {", New: "if false {",
		Breaks: "of what imports print the end is lost",
	},
	{
		Name: "open-files-are-not-forked", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestModulesThatAreNotForLaunchers/(socket|device)",
		Old: "        for fd in sorted(now & set(self.opened)):", New: "        for fd in []:",
		Breaks: "all workers share one connection, or a device that is not theirs (I3)",
	},
	{
		Name: "ranks-are-not-read-early", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestModulesThatAreNotForLaunchers/rank",
		Old: "        if name in launcher.planned:", New: "        if False:",
		Breaks: "each worker takes itself for rank None",
	},
	{
		Name: "environments-are-not-kept-early", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestModulesThatAreNotForLaunchers/environment",
		Old: "if any(text() is not None for text in self.texts):", New: "if False:",
		Breaks: "a module keeps an environment without a rank",
	},
	{
		Name: "another-script-is-cold", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestAScriptThatIsAnotherFile",
		Old: "if os.path.realpath(self.script) != self.real and not self.is_module:", New: "if False:",
		Breaks: "a new script runs with the modules of the old one",
	},
	{
		Name: "new-modules-hide", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestWhatHasChangedIsReadAgain/new,_hides",
		Old: "if found is not None and found.origin is not None and found.origin != spec.origin:", New: "if False:",
		Breaks: "a module that the owner puts beside the script is not used",
	},
	{
		Name: "only-children-are-adopted", File: "agent/shim/warm.go", Tests: "TestOnlyChildrenAreAdopted",
		Old: "case p.ppid != os.Getpid():", New: "case os.Getpid() < 0:",
		Breaks: "a worker's end is never seen, and it outlives its shim (I1, I12)",
	},
	{
		Name: "none-runs-without-rank-0", File: "agent/shim/warm.go", Tests: "TestAWorkerThatDiesBeforeItsRelease/rank_0",
		Old: "if _, err := b.conn.Write(word); err != nil && i == 0 {", New: "if _, err := b.conn.Write(word); err != nil && i < 0 {",
		Breaks: "a world fails for a launcher's fault, where a cold start would do",
	},
	{
		Name: "forked-workers-die-with-the-shim", File: "sdk/launcher.py", Owner: "agent/shim", Tests: "TestForkedWorkersAreHeld",
		Old: "if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != shim:", New: "if os.getppid() != shim:",
		Breaks: "workers go on where shim and agent were killed (I1)",
	},
	{
		Name: "launchers-die-with-the-shim", File: "agent/shim/launchtry.go", Tests: "TestALauncherDiesWithItsShim/imports",
		Old: "Setsid: true, Pdeathsig: unix.SIGKILL,", New: "Setsid: true,",
		Breaks: "a launcher imports on where shim and agent were killed (I12)",
	},
	{
		Name: "launchers-have-a-deadline", File: "agent/shim/launcher.go", Tests: "TestALauncherWaitsForTheDeadline",
		Old: "case !l.begun && l.order.Strict && l.wish.Deadline == 0:", New: "case false:",
		Breaks: "a cut-off node does not know when a launcher has to be dead",
	},
	{
		Name: "who-waited-has-the-environment", File: "agent/shim/parked.go", Tests: "TestACommandThatWaitedWithAnotherEnvironment",
		Old: "if !maps.Equal(lasting(order, s.dir), r.env) {", New: "if !maps.Equal(r.env, r.env) {",
		Breaks: "a command has come up with an environment that its generation does not have",
	},
	{
		Name: "v2-bounds-launchers", File: "agent/shim/launchbound.go", Tests: "TestALaunchersBoundInCgroupV2",
		Old: "return setMemoryV2(dir, fmt.Sprint(most))", New: "return nil",
		Breaks: "with cgroup v2 an import takes the memory of the world that trains",
	},
	{
		Name: "v2-workers-are-beside-launchers", File: "agent/shim/launchbound.go", Tests: "TestLaunchersAndWorkersShareACgroup|TestALaunchersBoundInCgroupV2",
		Old: "\tc.home = home\n", New: "",
		Breaks: "with cgroup v2 no worker of a prepared run can be started",
	},
	{
		Name: "words-of-an-earlier-life-are-deleted", File: "coordinator/prepare.go", Tests: "TestStories/prepared_node_back",
		Old: "!same && ready.Exists() && ready.Value.For(next) && !ready.Value.Begun { //", New: "false && ready.Exists() { //",
		Breaks: "a job is halted for a node that is back from a loss and has nothing ready, and starts cold there",
	},
	{
		Name: "what-is-not-wanted-is-dropped", File: "coordinator/prepare.go", Tests: "TestStories/prepared_plan_changes",
		Old: "if wanted[n] == 0 {", New: "if wanted[n] < 0 {",
		Breaks: "launchers wait on nodes that a job does not go to any more (I12)",
	},
	{
		Name: "nothing-is-prepared-on-cordoned-nodes", File: "coordinator/prepare.go", Tests: "TestStories/prepared_plan_changes",
		Old: "return no || !prepares(in, n) || in.node(n).Cordon.Exists()", New: "return no || !prepares(in, n)",
		Breaks: "a node that is drained gets new launchers (I13)",
	},
	{
		Name: "drains-wait-for-no-launcher", File: "coordinator/ready.go", Tests: "TestStories/prepared_waits",
		Old: `|| in.job.fault != "" || in.target`, New: "|| in.target",
		Breaks: "a job stays on a node that is drained, or on a device that fails, for 45 s more",
	},
	{
		Name: "nothing-is-prepared-of-erased-jobs", File: "coordinator/prepare.go", Tests: "TestStories/prepared_failover",
		Old: "for _, job := range slices.Sorted(maps.Keys(in.view.next)) {", New: "for _, job := range []cluster.JobID{} {",
		Breaks: "launchers of a job whose records were deleted wait for ever (I12)",
	},
	{
		Name: "more-processes-are-asked-for", File: "coordinator/prepare.go", Tests: "TestStories/prepared_more",
		Old: "if same && have.Value.Workers >= next.Workers {", New: "if same {",
		Breaks: "a job that grows on a node has as many processes ready there as it had before, and the others start cold",
	},
	{
		Name: "all-processes-are-awaited", File: "coordinator/ready.go", Tests: "TestStories/prepared_more",
		Old: "Workers: processes(in, at)}", New: "Workers: 0}",
		Breaks: "a job is halted before all processes of its next world are ready",
	},
	{
		Name: "one-process-a-node-waits-as-one", File: "coordinator/ready.go", Tests: "TestStories/prepared_per_node",
		Old: "if in.Spec.Value.PerNode {\n\t\treturn min", New: "if false {\n\t\treturn min",
		Breaks: "a job with one process a node has one waiting for each device, which takes memory for nothing",
	},
	{
		Name: "a-node-is-ready-with-all-processes", File: "agent/prepare.go", Tests: "TestStories/prepared_more",
		Old: "(p.Workers == 0 || p.Workers >= workers)", New: "true",
		Breaks: "a node says that it is ready with fewer processes than were asked for",
	},
	{
		Name: "more-processes-are-started", File: "agent/wish.go", Tests: "TestStories/prepared_more",
		Old: " || w.Workers != v.Workers ||", New: " ||",
		Breaks: "the shim never hears that more processes are to wait",
	},
	{
		Name: "what-runs-ahead-ends-first", File: "coordinator/step.go", Tests: "TestStories/prepared_ends_first|TestStories/prepared_finished",
		Old: "c.perform(afterParked(in, first(in, jobRules(j.state().Phase))))", New: "c.perform(first(in, jobRules(j.state().Phase)))",
		Breaks: "a generation starts, or a job is done, while processes run its script for another (I1, I12)",
	},
	{
		Name: "nothing-begins-unseen", File: "coordinator/parked.go", Tests: "TestSchedulesBreakWhatHasNoRule/what_is_parked_is_known",
		Old: "if !in.rule(ParkedKnown) {", New: "if true {",
		Breaks: "a node begins to prepare as it is told not to, and a generation starts elsewhere beside that (I1)",
	},
	{
		Name: "lost-nodes-have-their-time", File: "coordinator/parked.go", Tests: "TestStories/prepared_lost$",
		Old: "if in.clock.Sub(since) < lostAfter(in) {", New: "if false {",
		Breaks: "processes that run ahead on a node which is cut off live when a generation starts elsewhere (I1)",
	},
	{
		Name: "lost-nodes-have-promised", File: "coordinator/parked.go", Tests: "TestStories/prepared_lost_unsworn",
		Old: "if !absent || in.alone(n) || !fencesItself(in, parkedAt(n, said.Value)) {", New: "if !absent || in.alone(n) {",
		Breaks: "what a node has begun that lets its processes live on without a lease is forgotten (I1)",
	},
	{
		Name: "waits-for-what-is-parked-are-told", File: "coordinator/parked.go", Tests: "TestStories/prepared_ends_first",
		Old: "if in.clock.Sub(since) < parkedSoon {", New: "if true {",
		Breaks: "a job waits for a node, and nothing says so (I9)",
	},
	{
		Name: "the-old-world-saves-meanwhile", File: "coordinator/parked.go", Tests: "TestStories/prepared_ends_first",
		Old: "if in.target.Workers() == 0 && !in.unwanted() {", New: "if true {",
		Breaks: "a rescale waits for what was prepared elsewhere after it has saved, not while it does",
	},
	{
		Name: "begun-is-said-first", File: "agent/prepare.go", Tests: "TestStories/prepared$",
		Old: "case !g.saidBegun() || g.x.Ready.AliveRev != g.d.AliveRev:", New: "case false:",
		Breaks: "processes run ahead of which the leader knows nothing (I1, I12)",
	},
	{
		Name: "begun-stands-until-nothing-is-left", File: "agent/prepare.go", Tests: "TestStories/prepared_again",
		Old: "!bound && x.run.ended():", New: "!bound:",
		Breaks: "a job is done while processes that were prepared for it live (I12)",
	},
	{
		Name: "what-may-be-lost-is-swept", File: "agent/prepare.go", Tests: "TestStories/prepared_found_ended",
		Old: "case g.x.Ready != nil && g.x.Ready.Begun && !r.gone(): // an earlier agent may have started it", New: "case false: //",
		Breaks: "processes of a prepared run whose directory is lost live beside those of the next (I1)",
	},
	{
		Name: "a-start-waits-for-what-waits-here", File: "agent/plan.go", Tests: "TestStories/prepared_other_here",
		Old: "r.Shim != Absent && !r.ended() {\n\t\t\treturn true", New: "r.Shim != Absent && !r.ended() && !r.unbound() {\n\t\t\treturn true",
		Breaks: "workers start beside processes that wait for another generation (I1)",
	},
	{
		Name: "storm-sees-what-waits", File: "coordinator/storm_prepare_test.go", Tests: "TestStormsBreakWhatHasNoRule/waits_for_what_is_parked,_at_an_end",
		Old: "sh.Job == v.ID && sh.Parked() && !s.mayWait(sh, world)", New: "false && s.mayWait(sh, world)",
		Breaks: "no storm looks at processes that wait when a job ends",
	},
}
