// Package host runs a node: it brings what the records ask and what is really
// there before agent.Plan, and carries out what that answers.
//
// It promises that an agent's own life does not matter to training: workers
// belong to their shims, and a restarted agent first renews the lease that its
// predecessor kept on disk, before anything slow, then adopts the shims as they
// are. It promises that the deadline which shims fence by is counted from the
// sending of renewals that succeeded, and is never prolonged by anything else
// as long as another node may take this one's place; that workers past it are
// killed here if their shim does not do it, whatever else hangs;
// that what it has to record is written once and tried again for as long as etcd
// is away; and that Run returns only when every goroutine has ended, but for sweeps,
// which may take long and which a successor begins again.
//
//	etcd ──list, watch──► records ─┐                        ┌─► etcd (acks, saved, offers)
//	lease, alive key ──────────────┤   one goroutine:       ├─► shims (start, wishes, sweep)
//	shims' reports ────────────────┼──► agent.Plan ─────────┼─► checkpoint tasks
//	looks at directories ──────────┘                        └─► run directories
//
// One goroutine owns all state; whatever may take time runs beside it and comes
// back as an event.
//
// Read it in this order: what is known (records.go, session.go, hosted.go, runs.go), the
// connections to shims (shims.go), what starts and adopts runs (launch.go, adopt.go), the
// input of the plan (goals.go), the node that has all of them (node.go), what it does in
// each turn (act.go, step.go), and Run (host.go).
//
// ADR 28 says what a foreign process on a device keeps away.
package host
