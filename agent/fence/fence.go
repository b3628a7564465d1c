// Package fence is the arithmetic of the deadline by which a node that has lost
// touch kills its own workers, so that the rest of the cluster may start the
// next generation without asking it.
//
// It promises one thing: workers killed at Deadline are dead before etcd expires
// the lease that the deadline was computed from. The whole argument is
//
//	agent:  send renewal ────────────────► deadline = send + TTL − Margin ──► dead
//	etcd:          └── renewed (later!) ──────────────────── + TTL ─────────────► expires
//
// etcd renews after the request was sent, never before, so a deadline counted
// from the sending is early by the request's whole way there; Margin is what is
// left for timers, the kill itself and clocks that drift apart. Two see to it: the
// shim at the deadline, and the agent, Grace later, where the shim does not.
//
// All times are nanoseconds of CLOCK_BOOTTIME, passed in: the clock that neither
// jumps nor stands still while a machine sleeps. 0 stands for "unknown".
//
// ADR 23 says which node may be given up, ADR 35 why two processes keep the deadline.
package fence

import (
	"math"
	"time"
)

const (
	// TTL is how long a node's lease lives without a renewal.
	TTL = 10 * time.Second
	// RenewEvery is the time between renewals: several may fail before the deadline comes.
	RenewEvery = 2 * time.Second
	// Margin is how long before the lease can expire the workers are killed.
	Margin = 2500 * time.Millisecond
	// Grace is how long after the deadline the agent gives a shim before it kills the
	// workers itself: so long that one that only takes its time is left to it, and
	// so short that they are dead before the lease ends, Margin after the deadline.
	Grace = time.Second
	// Wait is how long the leader sees a node absent, on its own clock, before it
	// gives the node up. A lease may be revoked just after its last renewal: the
	// workers then die TTL − Margin later, and Kill is what that may take.
	Wait = TTL - Margin + Kill
	// Kill bounds timers, Grace where the shim hangs, the kill itself, the end of the
	// processes, and how far the clocks of two machines drift apart within a TTL.
	Kill = 4500 * time.Millisecond
)

// Never is the deadline that does not come.
const Never = math.MaxInt64

// Deadline is when the workers must be killed if the renewal sent at sent turns
// out to have been the last that reached etcd. Call it only with the time of a
// renewal that was answered with success; a ttl that leaves nothing after the
// margin gives a deadline that has passed already.
func Deadline(sent int64, ttl, margin time.Duration) int64 {
	return sent + int64(max(0, ttl-margin))
}

// Expired reports whether the deadline has come. An unknown deadline (0) has not.
func Expired(now, deadline int64) bool { return deadline != 0 && now >= deadline }

// Overdue reports whether a deadline has come so long ago. One that is unknown or
// never comes is not.
func Overdue(now, deadline int64, since time.Duration) bool {
	return deadline != Never && Expired(now-int64(since), deadline)
}

// Strict reports whether nodes fence themselves in a cluster of that many: with
// a single one no other node could start the job, and an etcd that is away
// would only cost work.
func Strict(nodes int) bool { return nodes > 1 }
