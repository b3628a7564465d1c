package main

// The tests that notice most.
const storms, schedules = "TestStorms$", "TestSchedulesBreakWhatHasNoRule"

var ofCoordinator = []Mutant{
	{
		Name: "leader-compare", File: "coordinator/flight.go", Tests: storms,
		Old: "if c.rule(LeaderCompare) {", New: "if false {",
		Breaks: "a deposed leader's transaction lands (I10)",
	},
	{
		Name: "state-compare", File: "coordinator/flight.go", Tests: storms,
		Old: "if c.rule(StateCompare) {", New: "if false {",
		Breaks: "a decision made from an old view lands (I10)",
	},
	{
		Name: "settle-unknown", File: "coordinator/flight.go", Tests: schedules,
		Old: "len(f.claims) > 0 && c.rule(SettleUnknown)", New: "false",
		Breaks: "a START that landed late takes devices given to another job since (I3)",
	},
	{
		Name: "lost-wait", File: "coordinator/lose.go", Tests: storms,
		Old: "if !c.rule(LostWait) {", New: "if true {",
		Breaks: "a lost node's workers still run when their successors start (I1)",
	},
	{
		Name: "fence-alive-absent", File: "coordinator/lose.go", Tests: schedules,
		Old: "\t\t\tifs = append(ifs, record.Absent(record.AliveKey(m.Node)))\n", New: "",
		Breaks: "a node that is back is fenced all the same (I1)",
	},
	{
		Name: "word-stands", File: "coordinator/lose.go", Tests: schedules,
		Old: "; c.rule(WordStands) {", New: "; false && word.Exists() {",
		Breaks: "a node that has taken its word back meanwhile is given up (I1)",
	},
	{
		Name: "fencing-known", File: "coordinator/lose.go", Tests: schedules,
		Old: "|| !c.rule(FencingKnown)", New: "|| true",
		Breaks: "a node that lets its workers live on without a lease is given up (I1)",
	},
	{
		Name: "node-back-ends-wait", File: "coordinator/lose.go", Tests: "TestStories|TestStorms$",
		Old: "delete(c.absent, id)", New: "_ = id",
		Breaks: "a node that comes and goes is fenced without a whole wait (I1)",
	},
	{
		Name: "start-alive-absent", File: "coordinator/start.go", Tests: schedules,
		Old: "member.Fenced && !member.Stopped && c.rule(AliveAbsent)", New: "false",
		Breaks: "a START lands although a fenced node is back (I1)",
	},
	{
		Name: "fenced-only-while-absent", File: "coordinator/formed.go", Tests: "TestStories|TestStorms$",
		Old: "(!node.Alive.Exists() || !c.rule(AliveAbsent))", New: "true",
		Breaks: "a node that came back after its fence counts as gone (I1)",
	},
	{
		Name: "doubt-failed", File: "coordinator/start.go", Tests: storms,
		Old: "c.failedFrom(f, f.Committed.Value) && c.rule(DoubtFailed)", New: "false",
		Breaks: "workers fail again and again from a checkpoint that its writer thinks sound (I5)",
	},
	{
		Name: "start-compares-committed", File: "coordinator/start.go", Tests: "TestStories|TestStorms$|TestSchedules",
		Old: "m.ifs = append(m.ifs, record.Unchanged(record.CommittedKey(f.ID), f.Committed.Mod))", New: "",
		Breaks: "a generation starts from a checkpoint other than the newest committed one (I5)",
	},
	{
		Name: "commit-generation", File: "coordinator/commit.go", Tests: storms,
		Old: "if !c.rule(CommitGeneration) {", New: "if true {",
		Breaks: "an old generation's checkpoint is committed into a newer one (I2)",
	},
	{
		Name: "commit-grows", File: "coordinator/commit.go", Tests: "TestStories|TestStorms$",
		Old: "(!f.Committed.Exists() || step > f.Committed.Value.Step)", New: "(!f.Committed.Exists() || step != f.Committed.Value.Step)",
		Breaks: "the committed step goes back (I2)",
	},
	{
		Name: "rewind", File: "coordinator/commit.go", Tests: schedules,
		Old: "s.Generation <= s.Rewound && c.rule(Rewind)", New: "false",
		Breaks: "what the owner has gone back behind is committed all the same (I5)",
	},
	{
		Name: "same-timeline-saves", File: "coordinator/commit.go", Tests: schedules,
		Old: "if c.rule(SameTimeline) {", New: "if false {",
		Breaks: "a save of before a restore of etcd is committed (I2)",
	},
	{
		Name: "one-per-step", File: "coordinator/commit.go", Tests: storms,
		Old: "step == offer.Step && !c.rule(OnePerStep)", New: "step == offer.Step",
		Breaks: "a step names two checkpoints, and the one given up is resumed from (I5)",
	},
	{
		Name: "two-witnesses", File: "coordinator/fallback.go", Tests: storms,
		Old: "if c.rule(TwoWitnesses) && ", New: "if false && ",
		Breaks: "a node with a bad disk gets good checkpoints given up (I5)",
	},
	{
		Name: "grant-rest", File: "coordinator/grant.go", Tests: storms,
		Old: "len(ops) == 0 || !c.rule(GrantRest)", New: "true || len(ops) == 0",
		Breaks: "of a START larger than one transaction some members never hear (I9)",
	},
	{
		Name: "plan-holds", File: "coordinator/grant.go", Tests: schedules,
		Old: "|| !c.rule(PlanHolds)", New: "|| true",
		Breaks: "devices that a START has yet to grant are given to another job (I3)",
	},
	{
		Name: "own-clock", File: "coordinator/wait.go", Tests: storms,
		Old: "if !c.rule(OwnClock) {", New: "if true {",
		Breaks: "a leader whose clock is ahead of the last one's cuts saves short",
	},
	{
		Name: "remove-over", File: "coordinator/remove.go", Tests: schedules,
		Old: "len(c.claims) > 0 && c.rule(RemoveOver)", New: "false",
		Breaks: "a job waits for ever for a node that was removed (I9)",
	},
	{
		Name: "claims-hold", File: "coordinator/flight.go", Tests: "TestStorms$|TestStories|TestSchedules",
		Old: "\t\tc.claims[d] = id\n", New: "\t\t_ = d\n",
		Breaks: "two STARTs on their way take the same device (I3)",
	},
	{
		Name: "halt-withdraws-permit", File: "coordinator/halt.go", Tests: "TestStories",
		Old: "then = append(then, record.Delete(record.PermitKey(f.ID, f.number())))", New: "_ = then",
		Breaks: "a generation that is to be killed at once keeps its permit (I1)",
	},
	{
		Name: "listing-keeps-waits", File: "coordinator/news.go", Tests: "TestStories",
		Old: "\tc.listed = max(c.listed, e.Revision)\n", New: "\tc.listed = max(c.listed, e.Revision)\n\tclear(c.absent)\n",
		Breaks: "a node is never given up while transactions go unanswered (I9)",
	},
	{
		Name: "ended-asks-for-nothing", File: "coordinator/picture.go", Tests: "TestStories",
		Old: "\tif c.targets.of[f.ID].Workers() > 0 && !c.asksFor(*f) {", New: "\tif false && !c.asksFor(*f) {",
		Breaks: "devices that were promised to a job that has ended stay idle (I9)",
	},
	{
		Name: "too-early-to-pin", File: "coordinator/finish.go", Tests: "TestStories",
		Old: " || c.premature(f) {", New: " {",
		Breaks: "a job is pinned by a halt in which it could not have saved",
	},
	{
		Name: "grow-after-first-step", File: "coordinator/halt.go", Tests: "TestStories",
		Old: " || !c.underWay(f)) {", New: ") {",
		Breaks: "a growing job is halted before its first step",
	},
	{
		Name: "reason-is-of-what-starts", File: "coordinator/start.go", Tests: "TestStories",
		Old: "\t\twhy = c.overtaken(f, a, why)\n", New: "",
		Breaks: "a job says that it grew although it did not (I9)",
	},
	{
		Name: "retries-are-bounded", File: "coordinator/transient.go", Tests: "TestWhatMayPassIsTriedAgainWithABound",
		Old: "s.Retries >= mostRetries || ", New: "",
		Breaks: "a job tries again for ever what does not pass (I9)",
	},
	{
		Name: "too-large-gets-smaller", File: "coordinator/flight.go", Tests: schedules,
		Old: "&& c.rule(SmallerForm)", New: "&& false",
		Breaks: "a transaction too large for etcd keeps devices for ever (I9)",
	},
	{
		Name: "refused-again-waits", File: "coordinator/flight.go", Tests: "TestRecordsMadeWrong",
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
		Old: "fmt.Fprint(mac, c.serial)", New: "fmt.Fprint(mac, 0)",
		Breaks: "two generations of one number have one nonce (I1)",
	},
}
