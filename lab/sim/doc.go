// Package sim runs job traces through the decisions of production in virtual
// time.
//
//	arrivals ─► requests ─┐                         ┌─► record.Memory: the store, compares and all
//	simulated agents' acks┼─► coordinator.Step ─► Effects
//	virtual clock ────────┘                         └─► Ask: the policy, checked by allocator.Run
//
// What decides is the code that decides in a cluster: the coordinator with its
// transactions, and the policy. What is simulated is the rest: agents that
// start, hold, save and stop workers as told, jobs that progress at the speed
// of their world, nodes that fail, people who submit and stop.
//
// It promises that a run depends on its Config alone: one goroutine, a heap
// ordered by (time, sequence), no clock, no map order. The log of what happened
// is the same byte for byte on every machine; Result carries its SHA-256.
//
// Rules are the conventions of a published simulator, so that its numbers can be
// compared: what a start costs, which job runs next. They replace the policy and
// the counting of work, never Step. Terms are such conventions without the
// decisions, under which policies of production decide. Packages below lab/rules
// implement both.
package sim
