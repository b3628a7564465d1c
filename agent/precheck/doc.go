// Package precheck looks whether a node has what a run needs, so that a node where something is missing says what, with the
// remedy, instead of a script that says something else: working directory, program, file of secrets, user, checkpoint
// directory, the master's port.
//
// The shim touches nothing itself at a path that a user has named. A Question is put to a process that is the run's owner;
// Answer is that process's side. FailureOf tells what passes from what a person has to mend.
//
//	found, env, err := precheck.Check(ctx, order, precheck.Question{…}, id)
package precheck
