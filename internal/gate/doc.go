// Package gate bounds how many connections may be open at a listener, in all and
// of each peer, so that none can have a process hold more than it should:
//
//	Accept ──► whose is it? ──► too many open of theirs, or in all ──► Refuse, closed
//	                       └──► counted until it is closed
//
// It promises that Accept never waits for a peer, refused ones included, that a connection that was
// closed twice counts once, and that peers of the reserve get in while others fill
// the rest.
package gate
