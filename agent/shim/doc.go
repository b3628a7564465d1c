// Package shim is the small process that hosts the workers of one job
// generation on one node.
//
// It promises to outlive the agent (its own session, its own containment), so
// that an agent can die, be upgraded and come back without a worker noticing;
// to kill its workers at the fencing deadline whether or not anybody still
// talks to it; to leave nothing behind when it retires; and to keep the devices
// from other runs as long as a worker may live, by locks that no worker has a
// descriptor of.
//
// The agent and its shims speak in levels, not in events: the agent pushes a
// Wish whenever it likes, the shim sends its whole Report whenever that
// changes, and either may be repeated or lost with a connection without harm.
// The last Report also lies in the run directory, so that it outlives the shim.
//
// # The agent's side
//
//	Start ──► Dial ──► Push wishes, receive Reports ──► Push Retire ──► remove the directory
//	             ▲
//	rundir.Scan ─┘ after a restart, for each run whose shim lives
//	    └──► rundir.ReadReport, sweep.Sweep ──► remove the directory, where it is not,
//	         and of runs whose files cannot be read, and of what sweep.Lost finds
//
// A run may be started before its plan is known, with Order.Prepare: then
//
//	Start ──► Dial ──► Report.Prepared ──► Bind ──► Push Start ──► Receive Reports …
//
// # The shim's side
//
// One goroutine owns everything. After each event it brings the facts of the run up to date, has run.State decide, and
// carries out what is due; it never waits for a disk, a file system or a peer, because
// the deadline is its own. Beside it run the check of the node, the executions, the
// writing of reports and one reader and writer for each connection.
//
// A run has one shim in its life: shim.json is created once, before any worker
// is executed, by the shim that hosts the run or by the sweep that gives it up.
//
// If the shim is killed its workers are killed with it, by the kernel (parent
// death signal). What these have left behind becomes the holder's, which is the
// shim's parent and does nothing else, and is killed by that at once; or, if the
// holder is dead as well, is found by its cgroup or its environment: by sweep.Sweep, which
// kills it, and by the next run that takes a lock of its devices: that finds the
// run's name in the lock file and waits.
//
// The shim ignores SIGHUP and SIGINT. On SIGTERM it kills its workers, writes its
// last report and ends.
//
// Decisions: ADR 4 and 5 (hold, SIGTERM, welcome), ADR 29 (limits), ADR 36 (stopped is
// found out), ADR 37 (device locks and files) and ADR 58 (prepared runs and parked processes, in place of ADR 50).
package shim
