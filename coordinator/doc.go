// Package coordinator decides the life of every job: Step takes what has
// happened and answers with the transactions, questions and alarms that follow.
//
//	Loaded, Changed ──► mirror of the records ─┐
//	Outcome, Decided, Tick ────────────────────┴─► Step ─► Effects{Txns, Ask, Reload, WakeAt, Notes}
//
// It promises to be level-triggered: what to do next is read off the records,
// never remembered, so a successor goes on where its predecessor stopped, and
// taking an event twice does nothing twice. Beside the mirror a Coordinator keeps
// only when it first saw a node absent or another wait begin, which transactions it waits for, and
// what the last decision granted to whom; losing those costs time, never safety.
// It also knows which jobs are at rest, so that a Step among thousands of them
// looks at the few that something has happened to.
//
// Every transaction compares the leader's key and the state record of the job
// that it changes; a job has at most one transaction in flight. The package is
// pure: time comes with the event, and the shell in package lead does what the
// effects ask for.
//
// Decisions: ADR 10, 11, 20 and 40 (transactions), ADR 12, 13 and 14 (halts and starts),
// ADR 15, 31 and 34 (nodes), ADR 21 and 22 (checkpoints), ADR 30 (waits).
package coordinator
