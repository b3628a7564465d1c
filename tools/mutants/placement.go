package main

// ofPlacement are the rules by which running jobs move for others.
var ofPlacement = []Mutant{
	{
		Name: "moves-of-an-interval", File: "coordinator/migrate.go", Tests: "TestStories/migrate_in_turn",
		Old: "if !d.migrated.IsZero() && in.clock.Sub(d.migrated) < in.cfg.Interval {", New: "if false {",
		Breaks: "jobs are halted for others as often as the policy is asked",
	},
	{
		Name: "pinned-jobs-stay", File: "coordinator/migrate.go", Tests: "TestStories/migrate_pinned",
		Old: "in.state().Pinned || v.Finishing()", New: "v.Finishing()",
		Breaks: "a move loses all that a job has done that has saved nothing",
	},
	{
		Name: "promised-jobs-stay", File: "coordinator/migrate.go", Tests: "TestStories/migrate_promised",
		Old: " || v.Promise != nil:", New: ":",
		Breaks: "the pause of a move breaks a deadline that was promised",
	},
	{
		Name: "finishing-jobs-stay", File: "coordinator/migrate.go", Tests: "TestStories/migrate_finishing",
		Old: "in.state().Pinned || v.Finishing() || v.Promise", New: "in.state().Pinned || v.Promise",
		Breaks: "a job that only has to end is halted for another",
	},
	{
		Name: "starting-jobs-stay", File: "coordinator/migrate.go", Tests: "TestStories/migrate_starting",
		Old: "cluster.Running && v.Booting <= 0 && !in.clock.Before(underWayAt(in))", New: "cluster.Running",
		Breaks: "a job that has just started, and has not begun a step, is halted for another",
	},
	{
		Name: "decided-moves-stand", File: "coordinator/answer.go", Tests: "TestStories/migrate$",
		Old: "|| t.moves && t.Workers() == a.Workers() {", New: "{",
		Breaks: "the next decision takes a move back that is under way",
	},
	{
		Name: "halted-jobs-move-first", File: "coordinator/migrate.go", Tests: "TestStories/migrate_failover",
		Old: "\tcase in.state().Phase == cluster.Halting:\n\t\treturn !in.target.moves // a move that was decided stands\n", New: "",
		Breaks: "a new leader halts a second job for the move that the one before had begun",
	},
	{
		Name: "moves-have-to-pay", File: "allocator/place/repair.go", Tests: "TestRepairKeepsItsWord",
		Old: "len(moved) <= most && cost < b.SpanCost {", New: "len(moved) <= most && cost >= 0 {",
		Breaks: "jobs pause for longer than the other gains by it",
	},
	{
		Name: "moves-at-most", File: "allocator/place/repair.go", Tests: "TestRepair$",
		Old: "len(moved) <= most && cost < b.SpanCost {", New: "cost < b.SpanCost {",
		Breaks: "one decision halts any number of jobs for others",
	},
	{
		Name: "jobs-without-a-price-stay", File: "allocator/place/repair.go", Tests: "TestRepair$",
		Old: "len(b.slots) < k && b.movable()", New: "len(b.slots) < k",
		Breaks: "a job makes room that may not move",
	},
	{
		Name: "moves-avoid-excluded-nodes", File: "allocator/place/repair.go", Tests: "TestRepair$",
		Old: "if d.node != \"\" && b.away[d.node] {", New: "if false {",
		Breaks: "a job moves to a node on which it cannot start",
	},
	{
		Name: "moves-avoid-closed-devices", File: "allocator/place/forest.go", Tests: "TestRepairKeepsItsWord",
		Old: "b.MoveCost, b.stays = 0, true // it keeps", New: "_ = true // it keeps",
		Breaks: "a job makes room on devices that nothing new may have",
	},
}
