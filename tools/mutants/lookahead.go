package main

// ofLookAhead are the rules by which a look-ahead takes little, and tells what would be.
var ofLookAhead = []Mutant{
	{
		Name: "look-ahead-is-bounded", File: "allocator/lookahead/future.go", Tests: "TestABudgetThatDoesNotLast",
		Old: " && f.spent < f.budget", New: "",
		Breaks: "a look-ahead over a long queue asks the policy for hours",
	},
	{
		Name: "look-ahead-can-be-stopped", File: "allocator/lookahead/future.go", Tests: "TestABudgetThatDoesNotLast",
		Old: "f.cfg.Stop != nil && f.cfg.Stop()", New: "false",
		Breaks: "a look-ahead goes on that takes too long, or whose caller has gone",
	},
	{
		Name: "look-ahead-ends-in-time", File: "api/serve/ahead.go", Tests: "TestALookAheadEndsInTime",
		Old: " || time.Now().After(end)", New: " || false && time.Now().After(end)",
		Breaks: "an answer waits for a look-ahead for as long as that takes",
	},
	{
		Name: "one-look-ahead-at-a-time", File: "api/serve/ahead.go", Tests: "TestOneLookAheadAtATime",
		Old: "turn: make(chan struct{}, 1)", New: "turn: make(chan struct{}, 1000)",
		Breaks: "users who ask for many dry runs take all processors of a node",
	},
	{
		Name: "predictions-are-shared", File: "api/serve/ahead.go", Tests: "TestPredictionsAreShownForAWhile",
		Old: "f.starts != nil && age < lookEvery", New: "false",
		Breaks: "each ps that is asked for takes a processor for a second",
	},
	{
		Name: "predictions-grow-old", File: "api/serve/ahead.go", Tests: "TestPredictionsAreShownForAWhile",
		Old: "age > lookAtMost", New: "false",
		Breaks: "ps shows starts as they were predicted long ago",
	},
	{
		Name: "too-large-is-not-looked-for", File: "allocator/lookahead/future.go", Tests: "TestAJobThatIsTooLargeNeverStarts",
		Old: "!r.never && (!r.started", New: "(!r.started",
		Breaks: "one job that is too large costs each look-ahead all that it may take",
	},
	{
		Name: "others-are-to-come", File: "allocator/lookahead/future.go", Tests: "TestJobsThatAreToCome",
		Old: "f.coming = comeAgain(q, i, n)", New: "_ = comeAgain",
		Breaks: "a start is promised as if no other job came",
	},
	{
		Name: "few-futures-widen-the-range", File: "allocator/lookahead/lookahead.go", Tests: "TestFewFuturesWidenTheInterval",
		Old: "wide > 0 && n > 1", New: "wide > 0 && n > 100",
		Breaks: "with few futures a range holds far less than nine in ten",
	},
	{
		Name: "dry-runs-heed-promises", File: "coordinator/ahead.go", Tests: "TestADryRunAnswersAsASubmissionDoes",
		Old: "q.Input.Jobs[i].Promise = p", New: "_ = i",
		Breaks: "a dry run shows devices that are promised to others",
	},
	{
		Name: "what-has-ended-came-too", File: "coordinator/ahead.go", Tests: "TestLookAheadKnowsWhatTheLeaderKnows",
		Old: "v.Work = allocator.Left(attained(in, v))", New: "v.Work = allocator.Left(0)",
		Breaks: "a look-ahead takes a cluster whose jobs are short for an idle one",
	},
}
