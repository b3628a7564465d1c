package main

// ofAhead are the rules of workers that run ahead of their plan, and are parked.
var ofAhead = []Mutant{
	{
		Name: "changed-environment-is-cold", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestWhatHasChangedIsReadAgain/env_file|TestACommandThatWaitedWithAnotherEnvironment",
		Old: "if !maps.Equal(r.Order.EnvironmentAhead(r.Dir), p.env) {", New: "if !maps.Equal(p.env, p.env) {",
		Breaks: "workers have come up with an environment that their generation does not have",
	},
	{
		Name: "interpreters-are-tried", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestAnInterpreterWithoutSitecustomizeRunsNothing",
		Old: "if err = t.check(command, program); err != nil {", New: `if program == "" {`,
		Breaks: "a script runs beside the generation that still trains (I1)",
	},
	{
		Name: "what-runs-ahead-dies-with-its-shim", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestWhatRunsAheadDiesWithItsShim/runs",
		Old: "Setsid: true, Pdeathsig: unix.SIGKILL,", New: "Setsid: true,",
		Breaks: "a script runs ahead where shim and agent were killed (I12)",
	},
	{
		Name: "what-runs-ahead-writes-no-file", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestWhatCannotBeParked/writes",
		Old: "if err = p.confine(t.Identity); err != nil {", New: "if false {",
		Breaks: "a library writes files of the generation that still trains",
	},
	{
		Name: "released-workers-write-files", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestAnInterpreterBehindAWrapper",
		Old: "err := p.free(r.Identity)", New: "err := error(nil)",
		Breaks: "a released worker cannot save",
	},
	{
		Name: "printing-much-is-cold", File: "agent/warm/parked.go", Owner: "agent/shim", Tests: "TestWhatCannotBeParked/prints_much",
		Old: "if waiting(p.Out) > ", New: "if false && waiting(p.Out) > ",
		Breaks: "a script that prints much waits for five minutes, and its job with it",
	},
	{
		Name: "what-runs-ahead-is-calm", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestWhatRunsAheadIsCalm",
		Old: "\t\tcalm(pid)\n", New: "\t\t_ = pid\n",
		Breaks: "the world that trains is slower while the next one is prepared",
	},
	{
		Name: "workers-are-not-calm", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestWhatRunsAheadIsCalm",
		Old: "err = Hurry(p.Process.PID)", New: "err = error(nil)",
		Breaks: "released workers have the lowest priority",
	},
	{
		Name: "each-thread-hurries", File: "agent/warm/priority.go", Tests: "TestAllThreadsOfAReleasedWorkerHurry",
		Old: `tasks, err := os.ReadDir(proc.Root.File(pid, "task"))`, New: "tasks, err := os.ReadDir(proc.Root.File(pid, \"task\"))\n\t\ttasks = tasks[:min(1, len(tasks))]",
		Breaks: "threads of libraries have the lowest priority for good",
	},
	{
		Name: "wrapped-workers-hurry", File: "agent/proc/family.go", Owner: "agent/shim", Tests: "TestWhatRunsAheadIsCalm",
		Old: "pids = append(pids, p.PID)", New: "_ = p",
		Breaks: "a worker behind a wrapper has the lowest priority",
	},
	{
		Name: "released-workers-are-placed", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestLimitsHoldReleasedWorkers|TestACommandThatWaits$",
		Old: "err := r.Containment.Place(p.Process.PID, local)", New: "err := error(nil)",
		Breaks: "a released worker is outside of its limits and its devices' filter (I3)",
	},
	{
		Name: "what-waited-is-placed", File: "agent/contain/workers.go", Owner: "agent/shim", Tests: "TestProcessesOfWhatWaitsAreBounded|TestAParkedWorkerSeesWhatAnExecutedOneDoes/system|TestNoDeviceIsOpenedBeforeThePlan",
		Old: "err := move(pid)", New: "var err error",
		Breaks: "a released worker is outside of its limits and its devices' filter (I3)",
	},
	{
		Name: "wrapped-workers-are-placed", File: "agent/contain/workers.go", Owner: "agent/shim", Tests: "TestLimitsHoldReleasedWorkers",
		Old: "range proc.Tree(pid)[1:] {", New: "range proc.Tree(pid)[:0] {",
		Breaks: "a released worker behind a wrapper is outside of its limits and its devices' filter (I3)",
	},
	{
		Name: "all-are-settled-before-one-is-told", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestACommandThatWaits$/3",
		Old: "\t\tif r.Order.Waits() {\n\t\t\tcontinue\n\t\t}\n\t\tif err = p.say", New: "\t\tif err = p.say",
		Breaks: "a command that waited runs on outside of its limits, or beside one that is executed in its place",
	},
	{
		Name: "extra-processes-are-killed", File: "agent/warm/parked.go", Owner: "agent/shim", Tests: "TestACommandThatWaitsForNoPlanIsKilled",
		Old: "\tproc.KillTree(p.Process.PID)\n", New: "\t_ = proc.KillTree\n",
		Breaks: "more processes wait than the generation has workers, and nothing ends them",
	},
	{
		Name: "missing-workers-are-executed", File: "agent/shim/release.go", Tests: "TestOtherNumbersOfWorkersThanAreParked/more",
		Old: "s.executeFrom(n)", New: "s.executeFrom(len(s.workers))",
		Breaks: "a generation is said to have started whose other processes were never executed",
	},
	{
		Name: "what-the-processes-find-is-heard", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestWhatHasChangedIsReadAgain/(module|data|asked)",
		Old: "\t\treturn errors.New(words[1])\n", New: "\t\treturn nil\n",
		Breaks: "workers run with what was read before their owner's change",
	},
	{
		Name: "what-changes-is-learned", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestWhatChangesIsLearned",
		Old: "Learn(r.Order.LearnedFile, words[2])", New: "_ = words[2]",
		Breaks: "a job that writes what it has read starts cold for ever",
	},
	{
		Name: "what-ends-it-is-learned", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestWhatEndsAProcessIsLearned",
		Old: `t.learn("import " + importing)`, New: "_ = importing",
		Breaks: "a job whose import ends a process that runs ahead is tried, and starts cold, for ever",
	},
	{
		Name: "rank-0-is-awaited", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestRank0IsLetFirst|TestParkedRanksWaitForRank0",
		Old: "(rank == 1 || rank != 0 && i == 0)", New: "rank < 0",
		Breaks: "ranks come before rank 0 listens, and sleep for half a second",
	},
	{
		Name: "only-who-meets-awaits-rank-0", File: "agent/warm/release.go", Tests: "TestWorldsThatMeet",
		Old: " && ReadLearned(r.Order.LearnedFile).Meets", New: "",
		Breaks: "the shim connects to a server of the script's own",
	},
	{
		Name: "what-waited-is-told-all", File: "agent/warm/release.go", Owner: "agent/shim", Tests: "TestACommandThatWaits$",
		Old: "last = run.Listed(r.told(i))", New: "last = nil",
		Breaks: "a command that waited has no rank",
	},
	{
		Name: "no-preparation-without-warm-starts", File: "agent/run/protocol.go", Owner: "agent/shim", Tests: "TestWorkersLeaveAtOnceWhereNothingIsSeen/nothing,_warm_starts_false",
		Old: `return o.Prepare != nil || o.LearnedFile != ""`, New: "return true",
		Breaks: "workers of jobs that have switched warm starts off have Bellows's sitecustomize",
	},
	{
		Name: "the-kernel-bounds-what-runs-ahead", File: "agent/contain/ahead.go", Owner: "agent/shim", Tests: "TestTheKernelBoundsWhatRunsAhead",
		Old: "s := seat{v2: c.ahead.v2, v1: c.ahead.v1}", New: "s := seat{v2: c.ahead.v2}",
		Breaks: "an import takes the memory of the world that trains before it is seen to",
	},
	{
		Name: "what-runs-ahead-opens-no-device", File: "agent/contain/ahead.go", Owner: "agent/shim", Tests: "TestNoDeviceIsOpenedBeforeThePlan",
		Old: "c.AheadUnbound = c.keepAhead(a.Devices)", New: "c.AheadUnbound = nil",
		Breaks: "what runs ahead opens devices of other jobs, and keeps them open (I3)",
	},
	{
		Name: "what-runs-ahead-starts-few-processes", File: "agent/contain/ahead.go", Owner: "agent/shim", Tests: "TestProcessesOfWhatWaitsAreBounded",
		Old: "if a.Processes > 0 {", New: "if a.Processes < 0 {",
		Breaks: "a command that waits and forks without end takes the node's processes",
	},
	{
		Name: "v2-bounds-processes-ahead", File: "agent/contain/ahead.go", Tests: "TestTheBoundOfProcessesInCgroupV2",
		Old: "\t\t\terr = r.v2(top)\n", New: "\t\t\t_ = top\n",
		Breaks: "with cgroup v2 a command that waits and forks without end takes the node's processes",
	},
	{
		Name: "what-runs-ahead-has-a-workers-processors", File: "agent/contain/ahead.go", Owner: "agent/shim", Tests: "TestProcessesOfWhatWaitsAreBounded",
		Old: "rules(a.Memory, a.CPUs)", New: "rules(a.Memory, 0)",
		Breaks: "what runs ahead takes more of the processors than its job asked for",
	},
	{
		Name: "workers-leave-the-bound", File: "agent/contain/workers.go", Owner: "agent/shim", Tests: "TestTheKernelBoundsWhatRunsAhead",
		Old: "leaves.v1 = append(leaves.v1, v1Group{dir: g.rest})", New: "_ = g",
		Breaks: "a released worker has no more memory than what runs ahead may have",
	},
	{
		Name: "v2-bounds-what-runs-ahead", File: "agent/contain/rule.go", Tests: "TestTheBoundInCgroupV2",
		Old: `set(dir, "memory.max", most)`, New: "error(nil)",
		Breaks: "with cgroup v2 an import takes the memory of the world that trains",
	},
	{
		Name: "v2-workers-are-beside-what-is-parked", File: "agent/contain/ahead.go", Tests: "TestParkedAndWorkersShareACgroup|TestTheBoundInCgroupV2",
		Old: "\tc.workersIn = home\n", New: "",
		Breaks: "with cgroup v2 no worker of a prepared run can be started",
	},
	{
		Name: "only-the-runs-folder-is-added", File: "agent/run/environment.go", Owner: "agent/shim", Tests: "TestNoForeignCodeRuns",
		Old: "python := filepath.Join(dir, PythonDir)", New: `python := filepath.Join(dir, PythonDir) + ":"`,
		Breaks: "code of another user's runs as the owner of a job in a shared folder",
	},
	{
		Name: "ranks-are-not-read-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/one_variable",
		Old: "        if name in self.planned:\n            self.park(\"reads", New: "        if False:\n            self.park(\"reads",
		Breaks: "each worker takes itself for rank None",
	},
	{
		Name: "environments-are-not-kept-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/all_variables",
		Old: "            self.park(\"reads the whole environment\", frame)\n\n    def copies", New: "            pass\n\n    def copies",
		Breaks: "a script keeps an environment without a rank",
	},
	{
		Name: "environments-are-not-copied-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/a_deep_copy",
		Old: "        if isinstance(self.first_argument(frame), type(os.environ)):", New: "        if False:",
		Breaks: "a script keeps an environment without a rank",
	},
	{
		Name: "ranks-are-not-set-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/a_variable_is_set",
		Old: "if os.fsdecode(args[0]) in self.planned:", New: "if False:",
		Breaks: "the plan undoes what the script has set",
	},
	{
		Name: "files-are-not-opened-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/a_file_is_written",
		Old: `if path != "/dev/null":`, New: "if False:",
		Breaks: "a script empties files of the generation that still trains",
	},
	{
		Name: "folders-are-not-made-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/a_folder_is_made",
		Old: `self.park("makes the folder %s" % path, frame)`, New: "pass",
		Breaks: "a script makes folders beside the generation that still trains",
	},
	{
		Name: "effects-are-not-had-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/(a_file_is_renamed|a_file_is_locked|a_process|a_profiler|a_package)",
		Old: "        elif event in EFFECTS:", New: "        elif False:",
		Breaks: "a script renames files of the generation that still trains, and starts processes beside it",
	},
	{
		Name: "watched-calls-are-not-made-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/(a_FIFO|a_thread|its_limits)",
		Old: "function.__name__ in WATCHED_C and", New: "False and",
		Breaks: "a script starts threads, and makes files, beside the generation that still trains",
	},
	{
		Name: "semaphores-are-not-made-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/a_semaphore",
		Old: `self.park("makes a semaphore", frame)`, New: "pass",
		Breaks: "a file is made beside the generation that still trains, and the process is ended for it",
	},
	{
		Name: "the-moment-is-not-asked-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/the_time",
		Old: "elif self.of_user(frame) and not self.may_call_c(function):", New: "elif False:",
		Breaks: "a script takes the time of its park for that of its start",
	},
	{
		Name: "files-of-the-kernel-are-not-read-early", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/the_kernel",
		Old: `if path.startswith("/dev/") or self.user_context(frame)`, New: `if path.startswith("/dev/")`,
		Breaks: "a script takes the state of the machine at its park for that at its start",
	},
	{
		Name: "ends-are-parked", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhereScriptsAreParked/its_end",
		Old: `            elif event != "return" or frame is not self.outer:`, New: "            elif True:",
		Breaks: "a script that ends is run once ahead, and once more",
	},
	{
		Name: "open-devices-are-cold", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhatCannotBeParked/device",
		Old: "                return \"what it imports keeps %s open\" % path\n", New: "                pass\n",
		Breaks: "a worker keeps a device open that is not its own (I3)",
	},
	{
		Name: "changed-files-are-found", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhatHasChangedIsReadAgain/(module|data|asked)",
		Old: "                if now(path) != was:", New: "                if False:",
		Breaks: "workers run with what was read before their owner's change",
	},
	{
		Name: "new-modules-hide", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhatHasChangedIsReadAgain/new,_hides",
		Old: "                if name in self.asked:", New: "                if False:",
		Breaks: "a module that the owner puts beside the script is not used",
	},
	{
		Name: "what-was-seen-to-change-is-parked-before", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhatChangesIsLearned",
		Old: `        if "path " + path in self.before:`, New: "        if False:",
		Breaks: "a job that writes what it has read starts cold for ever",
	},
	{
		Name: "plans-are-told", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWorkersAreParkedAndGoOn",
		Old: "            values[name] = value\n", New: "            pass\n",
		Breaks: "each worker takes itself for rank None",
	},
	{
		Name: "the-sdk-begins-at-the-release", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestAReleasedWorkerIsHalted",
		Old: `                frame.f_globals["_ahead"] = self`, New: "                pass",
		Breaks: "the SDK takes itself for one outside of Bellows",
	},
	{
		Name: "what-prints-early-is-given-up", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhatCannotBeImportedEarly/prints",
		Old: "        if self.early is not None and function.__name__ in PRINTS", New: "        if False and function.__name__ in PRINTS",
		Breaks: "what a framework prints at its import comes before what the script printed",
	},
	{
		Name: "what-is-imported-early-is-imported", File: "sdk/ahead.py", Owner: "agent/shim", Tests: "TestWhatIsImportedLateIsImportedEarly",
		Old: "        if why != ENDED:\n            self.import_early()\n", New: "",
		Breaks: "each rescale of a PyTorch job waits for the import of its compiler",
	},
	{
		Name: "what-an-early-import-read-is-compared", File: "sdk/early.py", Owner: "agent/shim", Tests: "TestWhatWasImportedEarlyIsOfNoUse",
		Old: "            if now.environ.get(key) not in", New: "            if None not in",
		Breaks: "the compiler does not heed what the script sets for it",
	},
	{
		Name: "another-process-is-parked-without", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestWhatCannotBeImportedEarly",
		Old: "if again { //", New: "if again || true { //",
		Breaks: "a job whose framework cannot be imported early starts cold",
	},
	{
		Name: "what-the-shim-ends-teaches-nothing", File: "agent/warm/parking.go", Owner: "agent/shim", Tests: "TestAProcessThatIsGivenUpTeachesNothing",
		Old: "case err != nil && t.Loop.Unwanted():", New: "case false:",
		Breaks: "after a start that came too early the next processes are parked before their imports",
	},
	{
		Name: "others-stay-parked", File: "agent/shim/ahead.go", Tests: "TestWhatIsParkedStaysWhenAnotherIsGivenUp",
		Old: "if len(a.parked) == 0 && !alone {", New: "if len(a.parked) == 0 {",
		Breaks: "a generation is said to be ready whose parked processes were killed",
	},
	{
		Name: "a-failed-start-is-learned-from", File: "agent/shim/exits.go", Tests: "TestWhatWasImportedEarlyIsOfNoUse",
		Old: "\t\tgo warm.LearnForGood(s.order.LearnedFile)", New: "\t\tgo warm.LearnForGood(\"\")",
		Breaks: "each rescale of such a job fails once",
	},
	{
		Name: "what-is-executed-is-not-reaped", File: "agent/shim/exits.go", Tests: "TestAProcessIsNotReapedBeforeItIsIdentified",
		Old: "if !s.state.Executing() && !s.facts.Ahead.Executing {", New: "if !s.state.Executing() {",
		Breaks: "a process that ends at once is a failure of the shim's, and the start is cold",
	},
	{
		Name: "late-modules-are-not-loaded", File: "sdk/early.py", Owner: "agent/shim", Tests: "TestWhatIsLoadedLateIsNotLoaded",
		Old: "        return object.__getattribute__(module, \"__dict__\")  # type", New: "        return getattr(module, \"__dict__\", {})  # type",
		Breaks: "a module that a script loads when it first uses it is loaded before, with what was set by then",
	},
}
