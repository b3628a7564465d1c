// Package gate bounds how many connections may be open at a listener, or how many
// of anything (streams, bytes), in all and of each peer, so that no peer can take more of a process
// than its share.
//
//	Accept ──► which peer? ──► the peer, or all, have too many open ──► Refuse, close
//	                      └──► counted until it is closed
//
// It promises that Accept never waits for a peer, not even a refused one; that a
// connection that is closed twice counts once; and that peers with Reserve are
// admitted while the others have filled the rest.
package gate
