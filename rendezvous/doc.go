// Package rendezvous forms worlds: from the devices promised to a job and what
// is known of their nodes it makes the membership, ranks and address of one
// generation, and from the members' acknowledgements it says who is still awaited.
//
// It promises an answer that depends on nothing but its arguments: the same
// request forms the same world, so a leader that repeats a decision repeats it exactly.
package rendezvous
