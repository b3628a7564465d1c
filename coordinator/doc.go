// Package coordinator decides the life of every job: Step takes what has
// happened and answers with the transactions, questions and alarms that follow.
//
//	Loaded, Changed ──► view ──────────┐
//	Outcome ──► transactions ──────────┼─► rules ──► moves ──► Effects{Txns, Ask, Reload, WakeAt, Notes}
//	Decided ──► decisions, Tick ───────┘
//
// The view is what the records say, and what is derived from them. A rule is a
// function of a situation: one job, the view, what the last decisions granted,
// what is in flight, and the time. It answers with a move, most often a
// transaction. rules.go lists the rules of each phase in the order in which they
// are tried; to follow what happens to a job, begin there.
//
// It promises to be level-triggered: what to do next is read off the records,
// never remembered, so a successor goes on where its predecessor stopped, and
// taking an event twice does nothing twice. Beside the records a Coordinator keeps
// only when it first saw a node absent or another wait begin, which transactions
// are in flight, what the last decision granted, what it has asked nodes to prepare,
// what reports of running generations have shown, and which events it has told;
// losing those costs time, never safety.
//
// Every transaction compares the leader's key and the state record of the job
// that it changes; a job has at most one transaction in flight. The package is
// pure: time comes with the event, and the shell in package lead does what the
// effects ask for.
package coordinator
