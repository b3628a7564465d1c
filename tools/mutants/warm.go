package main

// ofWarmStarts are the rules of runs that are prepared before their plan.
var ofWarmStarts = []Mutant{
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
		Name: "verify-waits-for-what-it-kills", File: "cli/verify/left.go", Owner: "cli/verify", Tests: "TestAGroupEnds|TestUntilNothingLives",
		Old: "\t\ttime.Sleep(leftPause)\n", New: "\t\treturn nil\n",
		Breaks: "the next world meets locks and ports of the last one",
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
		Name: "what-left-its-group-is-killed", File: "agent/contain/containment.go", Owner: "agent/shim", Tests: "TestWhatWasMovedOutOfItsGroupIsKilled",
		Old: "find = c.children", New: "return err",
		Breaks: "a process that root has moved out of the run's group keeps the run from ending (I3)",
	},
	{
		Name: "a-spare-has-to-pay", File: "coordinator/prepare.go", Tests: "TestStories/prepared_spare",
		Old: "begun = !in.clock.Before(at)", New: "begun = true",
		Breaks: "a job of seconds has its modules imported once more, for nothing",
	},
	{
		Name: "nothing-is-prepared-of-other-commands", File: "coordinator/prepare.go", Tests: "TestStories/prepared_no_script",
		Old: "in.paused().Exists() || unforkable(in) {", New: "in.paused().Exists() {",
		Breaks: "a job that runs no Python script has a process wait on each of its nodes, for nothing",
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
		Name: "a-node-is-ready-with-all-processes", File: "record/next.go", Tests: "TestReadyIsOfAllThatWasAskedFor",
		Old: "r.Workers >= max(1, n.Workers)", New: "r.Workers > 0",
		Breaks: "a node counts as ready with fewer processes than were asked for",
	},
	{
		Name: "begun-is-not-ready", File: "record/next.go", Tests: "TestReadyIsOfAllThatWasAskedFor",
		Old: "r.Workers == 0 && !r.Begun", New: "r.Workers == 0",
		Breaks: "a job is halted for a node that has only just begun to prepare",
	},
	{
		Name: "more-processes-are-started", File: "agent/run/protocol.go", Owner: "agent", Tests: "TestStories/prepared_more",
		Old: " || w.Workers != v.Workers ||", New: " ||",
		Breaks: "the shim never hears that more processes are to wait",
	},
	{
		Name: "what-runs-ahead-ends-first", File: "coordinator/step.go", Tests: "TestStories/prepared_ends_first|TestStories/prepared_finished",
		Old: "c.perform(afterParked(in, first(in, jobRules(j.state().Phase))))", New: "c.perform(first(in, jobRules(j.state().Phase)))",
		Breaks: "a generation starts, or a job is done, while processes run its script for another (I1, I12)",
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
	{
		Name: "a-failed-cold-start-is-charged", File: "coordinator/cold.go", Tests: "TestStories/warm_start_fails$",
		Old: "said.Started.Value.Warm && ", New: "",
		Breaks: "a script that fails at once is started again without end",
	},
	{
		Name: "a-start-that-trained-is-charged", File: "coordinator/cold.go", Tests: "TestStories/warm_start_fails_later",
		Old: "if begun || saved || ", New: "if false && (begun || saved) || ",
		Breaks: "a script that fails in its training is restarted twice as often as its owner allows",
	},
	{
		Name: "a-long-start-is-charged", File: "coordinator/cold.go", Tests: "TestStories/warm_start_fails_later",
		Old: " || in.now.Sub(in.gen.Plan.Value.At) > warmWithin", New: "",
		Breaks: "a script that reports no steps is restarted uncharged after days of training",
	},
	{
		Name: "a-cold-start-begins-with-nothing", File: "coordinator/start.go", Tests: "TestStories/warm_start_fails$",
		Old: "m.forms = &cluster.World{} // it begins with nothing", New: "_ = m //",
		Breaks: "the start after a failed warm one is warm again",
	},
	{
		Name: "a-cold-plan-says-why", File: "agent/acknowledge.go", Tests: "TestStories/planned_cold",
		Old: "said.Cold = x.Plan.Cold", New: "",
		Breaks: "it is not told why a start was cold",
	},
}
