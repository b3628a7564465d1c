// Package membership says which nodes are there, by gossip: it wraps
// hashicorp/memberlist, speaks cluster.NodeID, and delivers what it sees as
// events and as a sorted list.
//
// It promises speed, not truth. A dead or frozen peer is usually reported
// within one to two seconds, a cut-off one looks just like it, and nothing here
// may decide alone what becomes of a job: leases in etcd do that. It promises
// further never to block memberlist on a slow reader, to heal after a
// partition as long as somebody knows the other side's addresses, to refuse a
// second node of the same name, and to end in bounded time.
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
