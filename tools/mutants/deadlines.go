package main

// ofDeadlines are the rules by which a deadline that was admitted is kept.
var ofDeadlines = []Mutant{
	{
		Name: "a-guess-has-a-whole-reserve", File: "coordinator/promise/reserve.go", Owner: "coordinator", Tests: "TestStories/deadline_reserve$",
		Old: "!j.Measured || ", New: "",
		Breaks: "a deadline is promised with little in reserve on speeds that were never measured",
	},
	{
		Name: "losses-are-expected", File: "coordinator/promise/reserve.go", Owner: "coordinator", Tests: "TestStories/deadline_reserve$",
		Old: "within < 1-lossChance", New: "within < lossChance",
		Breaks: "a promise for days has nothing in reserve for a node that is lost",
	},
	{
		Name: "what-is-promised-comes-first", File: "allocator/policy/promise.go", Tests: "TestPromisedDevicesComeFirst",
		Old: "if len(jobs) == 0 {", New: "if len(jobs) >= 0 {",
		Breaks: "a policy gives to others what it has promised for a deadline",
	},
	{
		Name: "no-less-than-promised", File: "allocator/policy/draft.go", Tests: "TestAPromisedJobGrows",
		Old: "s.fixed || workers < s.least", New: "s.fixed || workers < s.least-1<<30",
		Breaks: "a policy takes back devices that it has promised for a deadline",
	},
	{
		Name: "promises-are-the-records", File: "allocator/policy/elasticflow.go", Tests: "TestWhatIsPromisedIsGivenInTheReserve",
		Old: "d.states[i].least = d.counts[i]", New: "d.states[i].least = min(0, d.counts[i])",
		Breaks: "a job whose end has moved into its reserve gets less than it was promised",
	},
	{
		Name: "growing-keeps-deadlines", File: "allocator/policy/promise.go", Tests: "TestAPromisedJobGrows",
		Old: "d.jobs[i] = only(d.jobs[i], c)", New: "_ = only",
		Breaks: "a policy grows a job whose pauses there and back then break its deadline",
	},
	{
		Name: "promised-profiles-stand", File: "allocator/admit/plan.go", Tests: "TestPromisedProfilesStand",
		Old: "if broken := fresh.broken(); broken > 0 {", New: "if broken := fresh.broken(); broken > 1<<30 {",
		Breaks: "planning anew breaks a deadline that was admitted",
	},
	{
		Name: "pauses-cost-time", File: "allocator/admit/fill.go", Tests: "TestPausesAreCharged",
		Old: "g.lost, g.have = r.pause, r.devices", New: "g.lost, g.have = 0, r.devices",
		Breaks: "a deadline is admitted that only a rescale without a pause would keep",
	},
	{
		Name: "pauses-are-paid-to-the-end", File: "allocator/admit/fill.go", Tests: "TestPausesAreCharged",
		Old: "progress{left: e.Work, lost: e.Owed", New: "progress{left: e.Work, lost: 0",
		Breaks: "what is left of a pause is taken for training",
	},
	{
		Name: "slots-end-at-deadlines", File: "allocator/admit/fill.go", Tests: "TestTinySets",
		Old: "			end = math.Min(end, f.start(to))", New: "			end = f.start(to)",
		Breaks: "work that is done after the deadline counts",
	},
	{
		Name: "admission-moves-later-jobs", File: "allocator/admit/free.go", Tests: "TestAdmitKeepsItsAccounts",
		Old: "n < k && (*f)[n].devices >= devices; n++", New: "n < k; n++",
		Breaks: "two jobs are promised the same devices",
	},
	{
		Name: "spread-keeps-deadlines", File: "allocator/admit/spread.go", Tests: "TestPromisesAreKept",
		Old: "; ok && (more > done || ", New: "; (ok || !ok) && (more > done || ",
		Breaks: "more devices now, and a pause on the way back, cost a job its deadline",
	},
	{
		Name: "renewing-breaks-no-promise", File: "coordinator/promise/outlook.go", Tests: "TestRenewingBreaksNoPromise",
		Old: "if _, ok := plan.Kept(id); !ok {\n\t\t\treturn k", New: "if _, ok := plan.Kept(id); !ok && false {\n\t\t\treturn k",
		Breaks: "a promise that is kept is broken to save another one",
	},
	{
		Name: "a-promised-batch-stays", File: "allocator/policy/flowtime.go", Tests: "TestAPromisedJobKeepsItsBatch",
		Old: "|| j.Promise != nil {", New: "{",
		Breaks: "a promised job pays a start for another batch that no promise was planned with",
	},
	{
		Name: "a-promise-moves-before-it-breaks", File: "coordinator/promise/replan.go", Owner: "coordinator", Tests: "TestStories/deadline_moves$",
		Old: "case at.Before(latest):", New: "case false:",
		Breaks: "a promise with a grace is broken where a later end would do",
	},
	{
		Name: "a-grace-saves-others", File: "coordinator/promise/replan.go", Owner: "coordinator", Tests: "TestStories/deadline_gives_way$",
		Old: "return c.spared(o, kept)", New: "return o, kept",
		Breaks: "a deadline is broken where another job could end in its grace",
	},
	{
		Name: "no-promise-beyond-the-grace", File: "coordinator/promise/decide.go", Owner: "coordinator", Tests: "TestStories/deadline_grace$",
		Old: "|| by.After(latest) {", New: "{",
		Breaks: "an end is promised that its owner has no use for",
	},
}
