package main

// ofBounds are the rules by which no user, node or stranger takes all of a process.
var ofBounds = []Mutant{
	{
		Name: "connections-of-one-peer", File: "internal/gate/bound.go", Tests: "TestConnectionsAreBounded|TestATakeIsWhole",
		Old: "p.Most > 0 && b.of[p.Name]+n > p.Most", New: "false",
		Breaks: "one peer takes all connections of a listener",
	},
	{
		Name: "connections-of-one-user-and-node", File: "api/serve/server.go", Tests: "TestAUserLeavesConnectionsToOthers",
		Old: "gate.Peer{Name: name, Most: userConnections}", New: "gate.Peer{Name: name}",
		Breaks: "one user takes all connections that a node has to another one",
	},
	{
		Name: "connections-of-one-node", File: "api/serve/crowd.go", Tests: "TestANodeBeyondItsConnectionsIsAnswered",
		Old: "gate.Peer{Name: host, Most: nodeConnections}", New: "gate.Peer{Name: host}",
		Breaks: "one node takes all connections of another one's port",
	},
	{
		Name: "bytes-of-bodies", File: "api/serve/body.go", Tests: "TestBytesOfBodiesAreBounded",
		Old: "case size <= smallBody:", New: "case size <= api.MaxBody:",
		Breaks: "requests that are never finished fill the agent's memory",
	},
	{
		Name: "bytes-of-bodies-of-one-user", File: "api/serve/body.go", Tests: "TestBytesOfBodiesAreBounded",
		Old: "10), Most: userBodies}", New: "10)}",
		Breaks: "one user takes all room for requests",
	},
	{
		Name: "bodies-count-until-answered", File: "api/serve/body.go", Tests: "TestBytesOfBodiesAreBounded",
		Old: "defer room.leave()", New: "room.leave()",
		Breaks: "requests that wait for etcd fill the agent's memory",
	},
	{
		Name: "answered-bodies-leave-their-room", File: "api/serve/body.go", Tests: "TestAnAnsweredBodyLeavesItsRoom",
		Old: "defer room.leave()", New: "_ = room.leave",
		Breaks: "an agent that has answered some large requests takes no more until it restarts",
	},
	{
		Name: "followers-hold-no-body", File: "api/serve/body.go", Tests: "TestOnlyWhatIsPostedHasABody",
		Old: "case r.Method != http.MethodPost:", New: "case false:",
		Breaks: "each follower keeps a body in the agent's memory for as long as it follows",
	},
	{
		Name: "gossip-streams-of-one-address", File: "internal/membership/transport.go", Tests: "TestStreamsAreBounded",
		Old: "gate.Peer{Name: host, Most: maxStreamsOfOne}", New: "gate.Peer{Name: host}",
		Breaks: "one machine occupies all streams of a node's gossip",
	},
	{
		Name: "gossip-streams", File: "internal/membership/transport.go", Tests: "TestStreamsAreBounded",
		Old: "gate.NewBound(maxStreams, 0)", New: "gate.NewBound(100*maxStreams, 0)",
		Breaks: "strangers make a node start any number of goroutines",
	},
	{
		Name: "user-lookups-are-left", File: "internal/userdb/userdb.go", Tests: "TestALookupThatHangsIsLeft",
		Old: "running < mostRunning &&", New: "running < 1000*mostRunning &&",
		Breaks: "a directory service that hangs takes a thread of the agent with each request",
	},
	{
		Name: "user-lookups-that-hang-block-no-others", File: "internal/userdb/userdb.go", Tests: "TestLookupsThatHangBlockNoOthers",
		Old: "time.Since(u.began) >= hungAfter", New: "time.Since(u.began) >= 1000*hungAfter",
		Breaks: "one lookup that hangs for good makes its user unknown until the agent restarts",
	},
	{
		Name: "failed-gossip-ends", File: "internal/membership/transport.go", Tests: "TestAFailedStartEndsItsTransport",
		Old: "case <-t.PacketCh():", New: "case <-make(chan struct{}):",
		Breaks: "an agent whose gossip cannot start hangs for ever",
	},
	{
		Name: "older-reasons-are-read", File: "record/oldreasons.go", Tests: "TestTextsOfOlderVersions|TestCodesOfLaterVersions",
		Old: "if len(r) == 0 || !r.Known() {", New: "if false {",
		Breaks: "after an upgrade a job that waited for a restart has no reason, and starts for another",
	},
	{
		Name: "reasons-have-a-text", File: "record/oldreasons.go", Tests: "TestTextIsWrittenBesideCodes",
		Old: "return r, r.String()", New: "return r, text",
		Breaks: "a version without codes, and etcdctl, see no reason",
	},
	{
		Name: "clauses-are-compared-whole", File: "record/reason/reason.go", Tests: "TestDecisionsLookAtCodes",
		Old: "c.Code == o.Code && maps.Equal(c.Args, o.Args)", New: "c.Code == o.Code",
		Breaks: "the failure of another rank counts as said already",
	},
	{
		Name: "hidden-arguments-are-dropped", File: "record/reason/reason.go", Tests: "TestCut",
		Old: "len(c.Args) != len(c.shown()) ||", New: "false ||",
		Breaks: "a record holds arguments of any length that no text shows",
	},
}
