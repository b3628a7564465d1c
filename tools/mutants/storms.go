package main

// tallied is the test that counts what each kind of storm did.
const tallied = "TestStorms$"

// ofStorms are the misfortunes of the storms, each taken out: a storm in which it no
// longer strikes would pass, and show nothing. Each has a count with a floor.
var ofStorms = []Mutant{
	{
		Name: "storm-losses-beside-what-waits", File: "coordinator/storm_prepare_test.go", Tests: tallied,
		Old: "\t\t\tn.s.loseBeside(n, sh)\n", New: "",
		Breaks: "hardly a storm loses workers, agents and machines while a run waits for its plan",
	},
	{
		Name: "storm-leader-dies", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\ts.leader().active = false\n", New: "",
		Breaks: "no storm has leaders that die",
	},
	{
		Name: "storm-leader-freezes", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "l.frozen = s.now + s.between(time.Second, 15*time.Second)", New: "l.frozen = s.now",
		Breaks: "no storm has leaders that freeze",
	},
	{
		Name: "storm-leader-deposed", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\t_ = s.mem.Revoke(l.lease) // perhaps it has none any more\n\ts.at(s.between(time.Second, 20*time.Second), func() { l.active = false })\n", New: "\t_ = l\n",
		Breaks: "no storm has leaders that do not notice that they were deposed",
	},
	{
		Name: "storm-agent-dies", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\tn.StopAgent()\n", New: "",
		Breaks: "no storm has agents that die",
	},
	{
		Name: "storm-node-lost", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\twas := n.Up()\n\ts.takeDown(n)\n", New: "\twas := n.Up()\n",
		Breaks: "no storm has machines that are lost",
	},
	{
		Name: "storm-node-cut-off", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\tn.CutOff(s.now + length)\n", New: "",
		Breaks: "no storm has nodes that are cut off",
	},
	{
		Name: "storm-lease-revoked", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\t_ = s.mem.Revoke(n.Lease()) // perhaps it is gone already\n", New: "",
		Breaks: "no storm has leases that end early",
	},
	{
		Name: "storm-lease-revoked-unseen", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\ts.cutOff(n)\n\ts.revoke(n)\n", New: "",
		Breaks: "no storm has leases that end early while their node is cut off",
	},
	{
		Name: "storm-worker-fails", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "if sh.Exit(1); sh.Report().Failed", New: "if sh.Report().Failed",
		Breaks: "no storm has workers that fail",
	},
	{
		Name: "storm-node-cordoned", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\ts.write(record.Put(record.CordonKey(n.Node), record.Cordon{Reason: \"storm\", Drain: s.chance(50)}))\n", New: "",
		Breaks: "no storm has cordons",
	},
	{
		Name: "storm-node-drained", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "Drain: s.chance(50)", New: "Drain: false",
		Breaks: "no storm has drains",
	},
	{
		Name: "storm-device-sick", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\tn.Devices[d].Health = cluster.Unhealthy\n", New: "",
		Breaks: "no storm has devices that become unhealthy",
	},
	{
		Name: "storm-stop", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "if len(ids) == 0 || !s.chance(30) {", New: "if true {",
		Breaks: "no storm has owners who stop a job",
	},
	{
		Name: "storm-stop-at-once", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "Now: now,", New: "Now: false,",
		Breaks: "no storm has owners who stop a job at once",
	},
	{
		Name: "storm-scale", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\tif len(ids) == 0 {\n\t\treturn\n\t}\n\tr := record.Request{\n\t\tKind: record.ScaleRequest", New: "\tif true {\n\t\treturn\n\t}\n\tr := record.Request{\n\t\tKind: record.ScaleRequest",
		Breaks: "no storm has owners who scale a job",
	},
	{
		Name: "storm-time-limit", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\tif s.chance(50) {\n\t\tr.TimeLimit", New: "\tif false {\n\t\tr.TimeLimit",
		Breaks: "no storm has time limits",
	},
	{
		Name: "storm-resume", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "if len(ended) == 0 {", New: "if true {",
		Breaks: "no storm has owners who resume a job",
	},
	{
		Name: "storm-node-scrapped", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\t{\"node scrapped\", (*storm).scrapNode},\n", New: "",
		Breaks: "no storm has nodes that are removed",
	},
	{
		Name: "storm-pause", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "\tif !s.chance(30) {\n\t\treturn\n\t}\n\ts.write(record.Put(record.PausedKey", New: "\tif true {\n\t\treturn\n\t}\n\ts.write(record.Put(record.PausedKey",
		Breaks: "no storm has pauses of the cluster",
	},
	{
		Name: "storm-disk-misread", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "s.nodes[0].misread = !s.nodes[0].misread", New: "s.nodes[0].misread = false",
		Breaks: "no storm has disks that go bad",
	},
	{
		Name: "storm-node-refuses", File: "coordinator/storm_fate_test.go", Tests: tallied,
		Old: "n.refuses = !n.refuses", New: "n.refuses = false",
		Breaks: "no storm has nodes that cannot run a job",
	},
	{
		Name: "storm-etcd-restored", File: "coordinator/storm_restore_test.go", Tests: tallied,
		Old: "if s.epoch > 0 || !s.chance(70) {", New: "if true {",
		Breaks: "no storm has restores of etcd",
	},
	{
		Name: "storm-worker-unkillable", File: "coordinator/storm_unkillable_test.go", Tests: tallied,
		Old: "\t\t\ts.stuck[sh] = true\n", New: "",
		Breaks: "no storm has workers that survive SIGKILL",
	},
	{
		Name: "storm-out-of-memory", File: "coordinator/storm_memory_test.go", Tests: tallied,
		Old: "\tif sh.Starve(); sh.Report", New: "\tif sh.Report",
		Breaks: "no storm has workers that run out of memory",
	},
	{
		Name: "storm-leader-sleeps-through-a-restore", File: "coordinator/storm_restore_test.go", Tests: tallied,
		Old: "\ts.sleepThroughRestore()\n", New: "",
		Breaks: "no storm has leaders that know the lost timeline only",
	},
	{
		Name: "storm-offer-late", File: "coordinator/storm_agent_test.go", Tests: tallied,
		Old: "\t\ts.lateOffer(n, t)\n", New: "",
		Breaks: "no storm has offers that come late",
	},
	{
		Name: "storm-progress-late", File: "coordinator/storm_agent_test.go", Tests: tallied,
		Old: "case t.ID == \"progress\" && s.chance(50):", New: "case false:",
		Breaks: "no storm has progress that comes late",
	},
	{
		Name: "storm-agents-answer-lost", File: "coordinator/storm_agent_test.go", Tests: tallied,
		Old: "case s.chance(3):", New: "case false:",
		Breaks: "no storm has answers to agents that are lost",
	},
	{
		Name: "storm-refusal-passes", File: "coordinator/storm_agent_test.go", Tests: tallied,
		Old: "record.NodeRefused, record.NodeRefused, record.Transient, record.NoSpace", New: "record.NodeRefused, record.NodeRefused, record.NoSpace",
		Breaks: "no storm has refusals that pass",
	},
	{
		Name: "storm-disk-full", File: "coordinator/storm_agent_test.go", Tests: tallied,
		Old: "record.NodeRefused, record.NodeRefused, record.Transient, record.NoSpace", New: "record.NodeRefused, record.NodeRefused, record.Transient",
		Breaks: "no storm has disks that are full",
	},
	{
		Name: "storm-checkpoint-damaged", File: "coordinator/storm_agent_test.go", Tests: tallied,
		Old: "\t\ts.did(\"checkpoint damaged\")\n\t\ts.damaged[c] = true\n", New: "",
		Breaks: "no storm has checkpoints that are damaged",
	},
	{
		Name: "storm-news-dropped", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "if s.chance(4) {", New: "if false {",
		Breaks: "no storm has news that is dropped",
	},
	{
		Name: "storm-news-repeated", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "if s.chance(6) {", New: "if false {",
		Breaks: "no storm has news that is repeated",
	},
	{
		Name: "storm-events-together", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "case l.s.chance(30):", New: "case false:",
		Breaks: "no storm has events that a leader takes in together",
	},
	{
		Name: "storm-transaction-lost", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "case fate < 3:", New: "case false:",
		Breaks: "no storm has transactions that are lost",
	},
	{
		Name: "storm-answer-lost", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "case fate < 6:", New: "case false:",
		Breaks: "no storm has answers to leaders that are lost",
	},
	{
		Name: "storm-transaction-late", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "case s.calm || fate >= 9:", New: "case s.calm || fate >= 6:",
		Breaks: "no storm has transactions that land after they were given up",
	},
	{
		Name: "storm-policy-refused", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "if rng.IntN(20) == 0 {", New: "if false {",
		Breaks: "no storm has answers of a policy that break the rules",
	},
	{
		Name: "storm-clocks-skewed", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "\tif s.skewed {", New: "\tif false {",
		Breaks: "no storm has leaders whose clocks differ",
	},
	{
		Name: "storm-kind-lossy", File: "coordinator/storm_test.go", Tests: tallied,
		Old: "s.wild = seed%2 == 1", New: "s.wild = false",
		Breaks: "no storm has storms whose news is lost",
	},
	{
		Name: "storm-kind-brief", File: "coordinator/storm_test.go", Tests: tallied,
		Old: "s.brief = seed%5 == 2", New: "s.brief = false",
		Breaks: "no storm has storms that keep what has ended for minutes",
	},
	{
		Name: "storm-kind-skewed", File: "coordinator/storm_test.go", Tests: tallied,
		Old: "s.skewed = seed%4 == 3 && !s.brief", New: "s.skewed = false",
		Breaks: "no storm has storms with skewed clocks",
	},
	{
		Name: "storm-kind-few-operations", File: "coordinator/storm_test.go", Tests: tallied,
		Old: "\tif seed%3 == 0 {", New: "\tif false {",
		Breaks: "no storm has storms whose etcd takes few operations",
	},
	{
		Name: "storm-kind-alone", File: "coordinator/storm_test.go", Tests: tallied,
		Old: "\tif seed%4 == 1 {", New: "\tif false {",
		Breaks: "no storm has storms in which the first node is alone",
	},
	{
		Name: "storm-moves", File: "coordinator/storm_leader_test.go", Tests: tallied,
		Old: "Migrations: s.moving, ", New: "",
		Breaks: "no storm has jobs that are moved for others",
	},
	{
		Name: "storm-groups", File: "coordinator/storm_test.go", Tests: tallied,
		Old: "\t\t\tif s.grouped {\n", New: "\t\t\tif false {\n",
		Breaks: "no storm has devices in groups",
	},
}
