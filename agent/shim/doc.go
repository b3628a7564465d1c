// Package shim is the small process that hosts the workers of one job
// generation on one node.
//
// It promises to outlive the agent (its own session, its own containment), so
// that an agent can die, be upgraded and come back without a worker noticing;
// to kill its workers at the fencing deadline whether or not anybody still
// talks to it; to leave nothing behind when it retires; and to keep the devices'
// locks held as long as a worker may live.
//
// The agent and its shims speak in levels, not in events: the agent pushes a
// Wish whenever it likes, the shim sends its whole Report whenever that
// changes, and either may be repeated or lost with a connection without harm.
// The last Report also lies in the run directory, so that it outlives the shim.
package shim
