// Package sweep finds what is left of a run, and ends it, where the run's shim cannot.
//
// The files of the run are not needed: they may be lost, damaged or of another version while everything lives. What leads to
// the processes are the cgroups of the run's record and those that bear the run's name, the shim's command line, the workers
// of the last report, descent from all of these, and the run's socket in the environment, which processes inherit.
//
// A process may keep a reader of its memory waiting, for ever. What needs no such look is killed first, and what a process
// shows of itself is read by a census, in bounded time, with bounds on what is unfinished: see observer.
//
//	err := sweep.Sweep(dir, lockDir, owner)       // the agent, for a run whose shim has died
//	reach, err := sweep.ReachOf(dir); reach.Kill(workers, true) // its watchdog, without a disk
//	text, known, err := sweep.Left(claim)          // who wants a device's lock
//
// Decisions: ADR 36 and 37.
package sweep
