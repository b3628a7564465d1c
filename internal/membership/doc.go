// Package membership detects by gossip which nodes are alive: it wraps
// hashicorp/memberlist, uses cluster.NodeID, and delivers changes as events and the
// present members as a sorted list.
//
// It promises speed, not certainty. It usually reports a dead or frozen peer within
// one to two seconds, and cannot tell it from one that is cut off, so nothing here
// decides alone about a job: leases in etcd do that. It promises further never to
// block memberlist on a slow reader, to heal after a partition if a node knows an
// address of the other side, to refuse a second node of the same name, to bound the
// streams that others open, and to end in bounded time.
//
// How another node looks from here:
//
//	                   Joined
//	not a member ───────────────────► member ◄──┐
//	  ▲  ▲                             │  │ └───┘ Updated
//	  │  └── Left: it said so ─────────┘  │
//	  └───── Failed: dead, frozen, ───────┘
//	         cut off, or its word of leaving was lost
//
// A node that restarts before it was missed is never reported as failed; it is
// Updated, with another incarnation in its metadata.
package membership
