package main

var ofStore = []Mutant{
	{
		Name: "renewal-counts-from-sending", File: "store/lease.go", Tests: "TestRenewalsCountFromTheirSending",
		Old: "\tsentAt = Boottime()\n\tttl, err := s.renewOnce(ctx, id)\n", New: "\tttl, err := s.renewOnce(ctx, id)\n\tsentAt = Boottime()\n",
		Breaks: "a deadline counts from a renewal's answer, and comes after the lease has expired (I1)",
	},
	{
		Name: "lease-that-is-gone", File: "store/lease.go", Tests: "TestKeepLease|TestLeases|TestStore",
		Old: "err == nil && ttl <= 0", New: "err == nil && ttl < 0",
		Breaks: "a renewal of an expired lease counts as a success (I1)",
	},
	{
		Name: "leads-only-with-its-key", File: "store/campaign.go", Tests: "TestNoCandidateLeadsWithoutKey",
		Old: "If:   []record.Compare{record.SameLife(l.Key, l.CreateRevision)},", New: "If:   nil,",
		Breaks: "a candidate whose key was deleted leads beside another (I10)",
	},
	{
		Name: "oldest-key-leads", File: "store/campaign.go", Tests: "TestCandidatesLeadInTurn",
		Old: "first = first && kv.CreateRevision >= l.CreateRevision", New: "_ = kv",
		Breaks: "two leaders at once (I10)",
	},
	{
		Name: "term-begins-with-a-write", File: "store/leadership.go", Tests: "TestATermBeginsWithAWrite",
		Old: "return record.Unchanged(l.Key, l.ModRevision)", New: "return record.SameLife(l.Key, l.CreateRevision)",
		Breaks: "a leader writes into an etcd that was restored to when its predecessor led (I3, I10)",
	},
	{
		Name: "frozen-leader-is-not-certain", File: "store/leadership.go", Tests: "TestAFrozenLeaderIsNotCertain",
		Old: "\tl.lose()\n\treturn false\n", New: "\treturn true\n",
		Breaks: "a leader that was frozen past its lease goes on writing (I10)",
	},
	{
		Name: "unanswered-is-unknown", File: "store/commit.go", Tests: "TestEtcdHangs|TestEtcdStopsAndComesBack",
		Old: "out := record.Outcome{ID: t.ID, Result: record.Unknown,", New: "out := record.Outcome{ID: t.ID, Result: record.Conflict,",
		Breaks: "a transaction that may land late counts as refused (I3)",
	},
	{
		Name: "cut-off-leader-stops", File: "store/leadership.go", Tests: "TestCutOffLeaderStopsFirst",
		Old: "\t\tif left <= 0 {\n\t\t\treturn\n\t\t}", New: "\t\tif left <= 0 {\n\t\t\tleft = time.Hour\n\t\t}",
		Breaks: "a cut-off leader goes on deciding",
	},
}
