// Package owned says whether a job's checkpoints lie in folders that only the
// job's owner can write to. Another user who can write to one of them can exchange a
// checkpoint between its verification and the moment at which a worker reads it,
// and what a worker reads it may execute: Python's pickles are programs.
//
// It promises to judge what it has opened and not a name that may mean something
// else a moment later, to follow no symbolic link below the base directory, and
// to name in each refusal the folder, whom it belongs to, and a remedy. The owner
// is the user that the process runs as, so it is called in the owner's own
// process.
package owned
