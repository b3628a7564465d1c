package main

// The tests that notice most.
const storms, schedules = "TestStorms$", "TestSchedulesBreakWhatHasNoRule"

var ofCoordinator = []Mutant{
	{
		Name: "lease-is-certain-before-a-commit", File: "coordinator/lead/term.go", Tests: "TestAFrozenLeaderSendsNothing",
		Old: "if !t.leadership.Certain() {", New: "if false {",
		Breaks: "a leader that was frozen past its lease sends what it decided before (I10)",
	},
	{
		Name: "grants-stand-where-others-land", File: "coordinator/guard.go", Tests: schedules,
		Old: "v.mirror.Revision+leap)", New: "1<<62)",
		Breaks: "the same, where a transaction of the lost timeline has landed in the restored etcd (I3)",
	},
	{
		Name: "changes-of-grants-are-marked", File: "coordinator/guard.go", Tests: schedules,
		Old: "\tt.Then = append(slices.Clip(t.Then), record.Put(record.GrantedKey, record.Granted{By: t.ID}))\n", New: "",
		Breaks: "nothing shows that a restored etcd is behind what a leader knows of grants (I3)",
	},
	{
		Name: "lost-timeline-is-dropped-at-once", File: "coordinator/step.go", Tests: "TestARevisionThatLeapsIsOfARestoredEtcd",
		Old: "if c.view.loaded() && !c.view.leaps(revision) {", New: "if c.view.loaded() {",
		Breaks: "a leader decides from the lost timeline after it has heard of the restored one (I3)",
	},
	{
		Name: "listing-has-the-last-write", File: "coordinator/step.go", Tests: "TestARevisionThatLeapsIsOfARestoredEtcd",
		Old: "if e.Revision < c.view.awaited {", New: "if false {",
		Breaks: "a listing without the leader's own last write makes its devices look free (I3)",
	},
	{
		Name: "answers-one-at-a-time", File: "coordinator/admit.go", Tests: "TestStories/deadline_two_at_once$",
		Old: "if in.writing(record.PromisedKey) {", New: "if false {",
		Breaks: "two deadlines that are asked for in one moment are answered from the same plan",
	},
	{
		Name: "promises-are-reviewed", File: "coordinator/step.go", Tests: "TestStories/deadline_broken$",
		Old: "m := review(c.situation()); m != nil", New: "m := review(c.situation()); false",
		Breaks: "no one is told that a lost node breaks a promise",
	},
	{
		Name: "a-promise-is-served-at-once", File: "coordinator/question.go", Tests: "TestStories/deadline$",
		Old: "case kept && d.served != in.mirror.Promised.Mod:", New: "case false:",
		Breaks: "a job gets what it was promised an interval late",
	},
	{
		Name: "out-of-memory-gives-the-size-up", File: "coordinator/finish.go", Tests: "TestStories/out_of_memory$",
		Old: "if !outOfMemory(in) || len(in.sizes) == 0 {", New: "if true {",
		Breaks: "a job is started again at a size that has no room in memory, and charged",
	},
	{
		Name: "out-of-memory-smaller-sizes-too", File: "coordinator/derive.go", Tests: "TestStories/out_of_memory$",
		Old: "return k > out }); i > 0 {", New: "return k > out }); i > 0 && sizes[0] == out {",
		Breaks: "a job is started in worlds smaller than one that ran out of memory",
	},
	{
		Name: "out-of-memory-granted-before", File: "coordinator/start.go", Tests: storms,
		Old: "if t.Workers() <= in.state().OutOfMemory &&", New: "if false &&",
		Breaks: "an answer from before it was known starts a size that has no room in memory",
	},
	{
		Name: "out-of-memory-of-a-batch", File: "coordinator/rules.go", Tests: "TestStories/out_of_memory_batch",
		Old: "\t{\"give up a batch: out of memory\", giveUpBatch},\n", New: "",
		Breaks: "a job gives up sizes, or ends, because of a batch that Bellows has raised",
	},
	{
		Name: "out-of-memory-of-a-batch-is-forgotten-on-resume", File: "record/job.go", Owner: "coordinator", Tests: "TestStories/out_of_memory_batch",
		Old: "Doubted: true,\n", New: "Doubted: true, BatchLimit: s.BatchLimit,\n",
		Breaks: "an owner's resume does not try larger batches again",
	},
	{
		Name: "out-of-memory-in-a-halt", File: "coordinator/finish.go", Tests: "TestStories/out_of_memory_in_halt",
		Old: "in.target.Workers() == 0 || in.target.Workers() > out {", New: "true {",
		Breaks: "a job that ran out of memory while it was halted is started in a smaller world for nothing",
	},
	{
		Name: "out-of-memory-in-a-halt-is-remembered", File: "coordinator/start.go", Tests: "TestStories/out_of_memory_in_halt",
		Old: "remember(in, next(in, cluster.Starting, why))", New: "next(in, cluster.Starting, why)",
		Breaks: "the same, one world later",
	},
	{
		Name: "out-of-memory-where-it-has-trained", File: "coordinator/memory.go", Tests: "TestStories/out_of_memory_in_halt",
		Old: "if !hasFitted(in) && len", New: "if len",
		Breaks: "a job waits for more devices than it has trained on",
	},
	{
		Name: "out-of-memory-is-forgotten-on-resume", File: "coordinator/memory.go", Tests: "TestStories/out_of_memory$",
		Old: "if in.state().Phase == cluster.Halting {", New: "if true {",
		Breaks: "an owner's resume does not try all sizes again",
	},
	{
		Name: "out-of-memory-is-not-charged", File: "coordinator/finish.go", Tests: "TestStories/out_of_memory$",
		Old: "s.OutOfMemory, s.Pinned = out, false\n", New: "s.OutOfMemory, s.Pinned = out, false\n\ts.Restarts++\n",
		Breaks: "a job loses its restarts to sizes that have no room in memory",
	},
	{
		Name: "out-of-memory-at-the-largest-ends", File: "coordinator/fail.go", Tests: "TestStories/out_of_memory$",
		Old: "if !hasFitted(in) {", New: "if false {",
		Breaks: "a job that has no room in memory at any size uses its restarts up",
	},
	{
		Name: "out-of-memory-scaled", File: "coordinator/start.go", Tests: "TestStories/out_of_memory_scaled",
		Old: "in.state().OutOfMemory && !slices.Contains(in.sizes, t.Workers()) {", New: "in.state().OutOfMemory {",
		Breaks: "a job that its owner has scaled to what ran out of memory waits for ever (I9)",
	},
	{
		Name: "failing-where-it-failed-waits", File: "coordinator/fail.go", Tests: "TestStories/restart_at_once",
		Old: "step, known && step > before", New: "step, known",
		Breaks: "a script that fails again and again at one step starts again as fast as processes start",
	},
	{
		Name: "failing-at-once-waits", File: "coordinator/fail.go", Tests: "TestStories/restart_at_once",
		Old: "case outOfMemory(in), in.now.Sub(in.gen.Plan.Value.At) < in.cfg.Timing.BackoffFirst:", New: "case outOfMemory(in):",
		Breaks: "a script that says that it has come far, and ends, starts again as fast as processes start",
	},
	{
		Name: "a-nonce-is-used-once", File: "coordinator/start.go", Tests: "TestAPreparedNonceIsUsedOnce",
		Old: "spends: true,", New: "spends: false,",
		Breaks: "a generation has the nonce of one that a lost timeline has run (I1, I2)",
	},
	{
		Name: "a-rescale-waits-for-its-nodes", File: "coordinator/rescale.go", Tests: "TestStories/prepared$",
		Old: "awaits && in.clock.Before(until) {", New: "awaits && false {",
		Breaks: "the old world stops before the next one is ready",
	},
	{
		Name: "a-rescale-waits-not-for-ever", File: "coordinator/rescale.go", Tests: "TestStories/prepared_waits",
		Old: "awaits && in.clock.Before(until) {", New: "awaits {",
		Breaks: "a node that says nothing keeps a job from its next size (I9)",
	},
	{
		Name: "nothing-prepared-is-left", File: "coordinator/prepare.go", Tests: "TestStories/prepared$",
		Old: "func unprepare(in situation) *move { return asks(in, nil, preparation{}) }", New: "func unprepare(situation) *move { return nil }",
		Breaks: "launchers of jobs that have ended wait on (I12)",
	},
	{
		Name: "what-is-not-prepared-any-more-is-not-used", File: "coordinator/prepare.go", Tests: "TestStories/prepared_queued",
		Old: "spends: len(wanted) == 0", New: "spends: false",
		Breaks: "a generation is started with runs that end, and starts without launchers, or not at all",
	},
	{
		Name: "a-batch-that-ran-out-is-not-started", File: "coordinator/start.go", Tests: "TestStories/out_of_memory_batch_asked",
		Old: "if in.state().BatchLimit > 0 && t.BatchSize > in.Batch().Max {", New: "if false && t.BatchSize > in.Batch().Max {",
		Breaks: "a job is started once more with a batch that has no room in memory",
	},
	{
		Name: "unplanned-are-awaited", File: "coordinator/grant.go", Tests: "TestStories/misnamed",
		Old: "(all == nil || !all.Stopped.Exists()) && !j.gen.Fences[n].Exists()", New: "false && all == nil",
		Breaks: "a generation starts without the acknowledgements of one whose plan was deleted by hand (I1)",
	},
	{
		Name: "unknown-phases-hold", File: "coordinator/node_index.go", Tests: "TestAPhaseThatIsUnknownIsLeftAlone",
		Old: "return v.Spec.Exists() && v.State.Value.Phase.Known()", New: "return v != nil",
		Breaks: "jobs wait for devices that no decision can free (I9)",
	},
	{
		Name: "negative-counts-are-none", File: "coordinator/transient.go", Tests: "TestNegativeCountsAreNone",
		Old: "first<<max(0, n)", New: "first<<n",
		Breaks: "a record written by hand ends each leader",
	},
	{
		Name: "node-requests-are-of-no-job", File: "coordinator/request.go", Tests: "TestARequestAboutANodeIsAboutNoJob",
		Old: "\t\treturn \"\"\n\tcase record.SubmitRequest", New: "\t\treturn r.Value.Job\n\tcase record.SubmitRequest",
		Breaks: "the leader loses sight of a transaction in flight",
	},
	{
		Name: "suspects-are-readmitted-where-held", File: "coordinator/rules.go", Tests: "TestStories/suspect_held",
		Old: "\t{\"readmit the suspect where no other node can verify\", readmitSuspect},\n\t{\"queue\", unhold},", New: "\t{\"queue\", unhold},",
		Breaks: "a job stays held although the node that it waits for is back (I9)",
	},
	{
		Name: "restored-is-read-anew", File: "coordinator/view.go", Tests: storms,
		Old: "v.mirror != nil && v.restored(e)", New: "false",
		Breaks: "a leader whose term outlives a restore of etcd goes by what is lost (I9)",
	},
	{
		Name: "refused-are-given-up", File: "coordinator/transactions.go", Tests: "TestStories/refused_erased",
		Old: "case f.until.IsZero():\n\t\tcase t.time", New: "case f.until.IsZero() || t.flights != nil:\n\t\tcase t.time",
		Breaks: "a START that was refused claims the devices of a job that is gone for ever (I9)",
	},
	{
		Name: "lost-with-etcd-hold-nothing", File: "coordinator/view.go", Tests: "TestAJobThatIsLostWithEtcdHoldsNoDevices",
		Old: "v.byJob.derived = known", New: "_ = known",
		Breaks: "devices stay idle that a job which a restored etcd does not know was granted",
	},
	{
		Name: "fence-alive-absent", File: "coordinator/lost.go", Tests: schedules,
		Old: "\t\tifs = append(ifs, record.Absent(record.AliveKey(n)))\n", New: "",
		Breaks: "a node that is back is fenced all the same (I1)",
	},
	{
		Name: "node-back-ends-wait", File: "coordinator/waits.go", Tests: "TestStories|TestStorms$",
		Old: "delete(w.absent, id)", New: "_ = id",
		Breaks: "a node that comes and goes is fenced without a whole wait (I1)",
	},
	{
		Name: "start-alive-absent", File: "coordinator/start.go", Tests: schedules,
		Old: "member.Fenced && !member.Stopped && in.rule(AliveAbsent)", New: "false",
		Breaks: "a START lands although a fenced node is back (I1)",
	},
	{
		Name: "fenced-only-while-absent", File: "coordinator/derive.go", Tests: "TestStories|TestStorms$",
		Old: "(!node.Alive.Exists() || !v.rule(AliveAbsent))", New: "true",
		Breaks: "a node that came back after its fence counts as gone (I1)",
	},
	{
		Name: "start-compares-committed", File: "coordinator/start.go", Tests: "TestStories|TestStorms$|TestSchedules",
		Old: "m.ifs = append(m.ifs, record.Unchanged(record.CommittedKey(in.ID), in.Committed.Mod))", New: "",
		Breaks: "a generation starts from a checkpoint other than the newest committed one (I5)",
	},
	{
		Name: "halts-come-before-commits", File: "coordinator/rules.go", Tests: "TestStories/commits_outpaced",
		Old: "var activeRules = []rule{\n", New: "var activeRules = []rule{\n\t{\"commit an offer\", commit},\n",
		Breaks: "a job that saves as fast as its offers are committed is never halted (I9)",
	},
	{
		Name: "no-life-gives-no-word", File: "coordinator/lost.go", Tests: "TestStories/lifeless",
		Old: "m.AliveRev != 0 && ", New: "",
		Breaks: "a node that never gave its word is fenced while its workers run (I1)",
	},
	{
		Name: "fenced-generations-back-off", File: "coordinator/rules.go", Tests: "TestStories/fenced_again",
		Old: "\t{\"back off: generations are fenced\", backOffFenced},\n", New: "",
		Breaks: "a job whose shim dies at each start starts as fast as processes do (I9)",
	},
	{
		Name: "questions-keep-their-rhythm", File: "coordinator/question.go", Tests: "TestStories/failover_rhythm",
		Old: "ago = min(max(in.now.Sub(last.Asked), 0), in.cfg.Interval)", New: "_ = last.Asked",
		Breaks: "each election rescales jobs, however soon after the last question",
	},
	{
		Name: "undecided-halts-are-asked-about", File: "coordinator/question.go", Tests: "TestStories/failover",
		Old: "case d.inherited && haltsUndecided(in):", New: "case false:",
		Breaks: "what a new leader finds halted for a rescale waits for an interval (I9)",
	},
	{
		Name: "reasons-outlive-a-leader", File: "coordinator/queue.go", Tests: "TestStories/failover_rhythm",
		Old: "case !in.decided && in.inherited && !in.state().Reason.Has(reason.Accepted):", New: "case false:",
		Breaks: "each election writes the reason of every queued job twice",
	},
	{
		Name: "commit-grows", File: "coordinator/commit.go", Tests: "TestStories|TestStorms$",
		Old: "(!in.Committed.Exists() || step > in.Committed.Value.Step)", New: "(!in.Committed.Exists() || step != in.Committed.Value.Step)",
		Breaks: "the committed step goes back (I2)",
	},
	{
		Name: "same-timeline-saves", File: "coordinator/commit.go", Tests: schedules,
		Old: "if in.rule(SameTimeline) {", New: "if false {",
		Breaks: "a save of before a restore of etcd is committed (I2)",
	},
	{
		Name: "remove-over", File: "coordinator/remove.go", Tests: schedules,
		Old: "in.claiming() && in.rule(RemoveOver)", New: "false",
		Breaks: "a job waits for ever for a node that was removed (I9)",
	},
	{
		Name: "claims-hold", File: "coordinator/transactions.go", Tests: "TestStorms$|TestStories|TestSchedules",
		Old: "\t\tt.claims[d] = id\n", New: "\t\t_ = d\n",
		Breaks: "two STARTs on their way take the same device (I3)",
	},
	{
		Name: "halt-withdraws-permit", File: "coordinator/halt.go", Tests: "TestStories",
		Old: "then = append(then, record.Delete(record.PermitKey(in.ID, in.number())))", New: "_ = then",
		Breaks: "a generation that is to be killed at once keeps its permit (I1)",
	},
	{
		Name: "listing-keeps-waits", File: "coordinator/step.go", Tests: "TestStories",
		Old: "\tc.transactions.reloaded()\n", New: "\tc.transactions.reloaded()\n\tclear(c.waits.absent)\n",
		Breaks: "a node is never given up while transactions go unanswered (I9)",
	},
	{
		Name: "ended-asks-for-nothing", File: "coordinator/step.go", Tests: "TestStories",
		Old: "in.target.Workers() > 0 && !takesPart(in)", New: "false && !takesPart(in)",
		Breaks: "devices that were promised to a job that has ended stay idle (I9)",
	},
	{
		Name: "too-early-to-pin", File: "coordinator/pin.go", Tests: "TestStories",
		Old: " || haltedWhileImporting(in) {", New: " {",
		Breaks: "a job is pinned by a halt in which it could not have saved",
	},
	{
		Name: "grow-after-first-step", File: "coordinator/rescale.go", Tests: "TestStories",
		Old: "at := underWayAt(in); in.clock.Before(at) {", New: "at := underWayAt(in); false {",
		Breaks: "a growing job is halted before its first step",
	},
	{
		Name: "reason-is-of-what-starts", File: "coordinator/start.go", Tests: "TestStories",
		Old: "\t\twhy = overtaken(in, a, why)\n", New: "",
		Breaks: "a job says that it grew although it did not (I9)",
	},
	{
		Name: "retries-are-bounded", File: "coordinator/transient.go", Tests: "TestWhatMayPassIsTriedAgainWithABound",
		Old: "s.Retries >= mostRetries || ", New: "",
		Breaks: "a job tries again for ever what does not pass (I9)",
	},
	{
		Name: "refused-again-waits", File: "coordinator/transactions.go", Tests: "TestRecordsMadeWrong",
		Old: "return r.times >= mostRefusals", New: "return false",
		Breaks: "a transaction that is always refused causes listings without end",
	},
	{
		Name: "requests-count", File: "coordinator/allow.go", Tests: "TestLimitsCountWhatIsOnItsWay",
		Old: "\t\tu.CountRequest(r.Versioned)\n", New: "",
		Breaks: "a user gets around the limits by submitting on several nodes",
	},
	{
		Name: "nonces-differ", File: "coordinator/nonce.go", Tests: "TestNoncesDiffer",
		Old: "fmt.Fprint(mac, in.serial)", New: "fmt.Fprint(mac, 0)",
		Breaks: "two generations of one number have one nonce (I1)",
	},
	{
		Name: "unusable-is-held", File: "coordinator/queue.go", Tests: "TestAbsurdJobIsHeldByItself|TestNumbersOfOneJobSpoilNoDecision",
		Old: "if in.unusable == \"\" {", New: "if true {",
		Breaks: "a job with numbers that no submit accepts spoils the decisions about all others (I9)",
	},
	{
		Name: "gone-claims-nothing", File: "coordinator/step.go", Tests: "TestStartOfAJobThatIsGoneClaimsNothing",
		Old:    "\tc.transactions.abandon(func(id cluster.JobID) bool { return c.view.mirror.Job(id).State.Exists() })\n",
		New:    "\t_ = func(cluster.JobID) {}\n",
		Breaks: "a START without an answer keeps devices for a job that is gone (I9)",
	},
	{
		Name: "misnamed-plan-is-none", File: "coordinator/derive.go", Tests: "TestStories/misnamed",
		Old: "!j.gen.Plan.Value.Of(j.ID, j.number())", New: "false",
		Breaks: "a plan of another generation than its key says who takes part (I10)",
	},
	{
		Name: "suspicion-is-known-again", File: "coordinator/witness.go", Tests: "TestSuspicion",
		Old:    "return s != nil && s.Checkpoint.Generation == c.Generation && s.Checkpoint.Step == c.Step && s.Checkpoint.ManifestSHA256 == c.ManifestSHA256",
		New:    "return s != nil && s.Checkpoint == c",
		Breaks: "a suspicion is written at every Step, and a damaged checkpoint is never given up (I5)",
	},
	{
		Name: "suspicion-needs-no-reason", File: "coordinator/witness.go", Tests: "TestSuspicion",
		Old: "if _, excluded := s.Excluded[found.node]; excluded && suspects", New: "if s.Excluded[found.node] != \"\" && suspects",
		Breaks: "a suspicion without a reason is written at every Step (I9)",
	},
	{
		Name: "a-job-that-keeps-its-world-keeps-its-batch", File: "allocator/run.go", Tests: "TestRunFillsInTheBestBatch",
		Old: "if same != 0 && d.BatchSize != same && c.devices.MustKeep(j) {", New: "if false {",
		Breaks: "a job that has not saved yet is started again for another batch, and loses its work",
	},
	{
		Name: "demands-are-shared", File: "coordinator/view_nodes.go", Tests: "TestDemandsCostNothing",
		Old: "ok && !v.noCache", New: "ok && false",
		Breaks: "each Step looks at every node for every queued job that demands something of nodes",
	},
}
