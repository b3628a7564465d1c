// Package owner finds out whom the processes of a job's owner run as on this node, as the node has it now: a user who is
// not known here, or under another number, is an error with its remedy, since files would get wrong owners.
//
// A user database may hang. A lookup waits no longer than Patience, and its error wraps userdb.ErrNoAnswer then.
package owner
