// Package run decides what is done about one run: the part of a job's generation on one node. It starts the workers,
// carries out halts, kills at the fencing deadline or when it is told to, and says when nothing is left.
//
// It has no I/O and no clock. A shell brings the facts up to date, has Step decide, and carries the actions out:
//
//	state := run.New(order, self, "cgroup2")
//	for {
//		look(&facts, due.Look)           // at what nothing announces
//		due = state.Step(&facts)
//		for _, a := range due.Actions {
//			carryOut(a)              // or begin it: a fact says later how far it is
//		}
//		if due.Tell {
//			publish(state.Report)
//		}
//		wait()
//	}
//
// It waits until a fact changes, until Due.At, or, if Due.Look has anything, for a moment. It does not wait after an
// action, nor if Due.Look has what was not looked at before this Step.
//
// The shells are agent/shim, on a real node, and lab/machine, in memory.
//
// It promises:
//
//   - After the deadline in force, after a kill and after the shim was told to end, everything inside is killed, again
//     and again, whatever else hangs. This cannot be called off.
//   - Workers are executed once, with a plan, with the devices' locks, beside nothing that ran ahead of another start,
//     and, where workers are fenced, with a deadline.
//   - Stopped is reported when nothing lives inside and the devices' locks are free.
//   - A rank that connects during a halt is held before it may begin a step. Held is reported once each connected rank
//     has answered.
//   - The first failure is reported, and none that a kill has caused.
//   - Step with the same facts has nothing to do, and asks for no Step at a time that is over.
//
// Decision: ADR 61.
package run
