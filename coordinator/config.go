package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/record"
)

// Config is what a Coordinator is told once, for one term of leadership.
type Config struct {
	Token Token
	// Secret is random, and anew in each term: the plans' nonces follow from it, so
	// that numbers which come again after etcd was restored from a backup are told
	// apart. Empty = plans have none, for simulations.
	Secret string
	Policy string // its name, for the records
	// Timeless: the policy is one (allocator.Timeless), and is not asked again only because time has passed.
	Timeless bool
	// Prompt: the policy is one (allocator.Prompt), and is asked fully soon after a job or a node has come or gone.
	Prompt bool
	// Unmeasured: nothing is measured, and decisions are made from what owners state. For
	// simulations whose owners know everything.
	Unmeasured bool
	// PromiseSizes are those of a job's sizes with which the policy lets a promised deadline
	// be planned (allocator.Promising); nil = it promises none.
	PromiseSizes func(sizes []int) []int
	// Unanswered: no answer is given to deadlines, and no job refused for one. For
	// simulations, whose users wait for none.
	Unanswered bool
	// Interval is the time between two decisions that may move running jobs.
	Interval time.Duration
	Timing   Timing // zero = DefaultTiming
	// Migrations is how many running jobs may be moved in an interval so that others are
	// closer together; 0 = none.
	Migrations int
	// MaxTxnOps is how many compares, and how many operations, etcd takes in one
	// transaction; 0 = record.DefaultMaxTxnOps. With fewer than LeastTxnOps it may be stuck.
	MaxTxnOps int
	// KeepCheckpoints is how many committed checkpoints of a job are kept; 0 =
	// DefaultKeepCheckpoints, and never fewer than LeastKeepCheckpoints.
	KeepCheckpoints int
	// Quiet: no events are written. For simulations, whose events have no reader.
	Quiet bool
	// KeepResumable is how many jobs are kept beyond Timing.Retention to be resumed;
	// of more, those that ended first go. 0 = DefaultKeepResumable.
	KeepResumable int
	// NoNewPrivs is every job's, whatever its owner has said.
	NoNewPrivs bool
	// Limits bound what each user may have; nil = nothing does.
	Limits *record.Limits
	// NoCache has everything derived from the records again at each Step: for
	// tests, whose answers it must not change.
	NoCache bool
	// Without switches rules of the protocol off, so that simulations can show
	// what each is for. Zero in production.
	Without Rule
}

// Deciding is the config with all that follows from the policy by which the leader decides.
func (c Config) Deciding(p allocator.Policy) Config {
	c.Policy, c.PromiseSizes, c.Timeless, c.Prompt = p.Name(), nil, allocator.IsTimeless(p), allocator.IsPrompt(p)
	if q, ok := p.(allocator.Promising); ok {
		c.PromiseSizes = q.PromiseSizes
	}
	return c
}

// LeastTxnOps is how many operations a transaction must be allowed to have.
// What grows with a job's nodes is written in as many transactions as it takes;
// all else needs no more than these.
const LeastTxnOps = 16

// Token fences a term: the leader's key and the revision at which the leader wrote
// it when its term began.
type Token struct {
	Key string
	Mod int64
}

// Timing holds the protocol's times.
type Timing struct {
	// LostAfter is how long a node's alive key must have been absent, on the
	// leader's own clock, before its workers count as dead: see fence.Wait.
	LostAfter time.Duration
	// StartWithin is how long the members of a new generation have to start their workers.
	StartWithin time.Duration
	// BackoffFirst is the wait after the first failure; it doubles up to BackoffMost.
	BackoffFirst, BackoffMost time.Duration
	// Retention is how long a finished job can be looked at, and Resumable how long
	// one can be resumed that has stopped or failed with a checkpoint, where that is
	// longer: beyond Retention without its generations.
	Retention, Resumable time.Duration
}

// DefaultTiming returns the protocol's times; LostAfter goes with a node lease of fence.TTL.
func DefaultTiming() Timing {
	return Timing{
		LostAfter:    fence.Wait,
		StartWithin:  time.Minute,
		BackoffFirst: time.Second,
		BackoffMost:  time.Minute,
		Retention:    24 * time.Hour,
		Resumable:    14 * 24 * time.Hour, // two weekends, and the week between
	}
}

// Rule names rules of the protocol that can be switched off; a set of them is their sum.
type Rule uint

// The rules, each with what breaks without it.
const (
	LeaderCompare    Rule = 1 << iota // a deposed leader's transaction lands (I10)
	StateCompare                      // a decision made from an old view lands: a plan is written twice (I10)
	LostWait                          // a lost node's workers still run when their successors start (I1)
	CommitGeneration                  // an old generation's checkpoint is committed into a newer one (I2)
	AliveAbsent                       // a node that came back after its fence counts as gone (I1)
	ResolveUnknown                    // a START that landed late takes devices given to another since (I3)
	GrantRest                         // of a START larger than one transaction some members never learn of (I9)
	Rewind                            // what the owner has gone back behind is committed all the same (I5)
	TwoWitnesses                      // a node with a bad disk gets good checkpoints given up (I5)
	FencingKnown                      // a node that lets its workers live on without a lease is given up (I1)
	PlanHolds                         // devices that such a START has yet to grant are given to another (I3)
	DoubtFailed                       // workers fail again and again from a checkpoint that its writer thinks sound (I5)
	OnePerStep                        // a step names two checkpoints, and the one given up is resumed from (I5)
	OwnClock                          // a leader whose clock is ahead of the last one's cuts saves short
	PromiseStands                     // a node that has taken its promise back meanwhile is fenced (I1)
	RemoveOver                        // a job waits for ever for a node that was removed (I9)
	SmallerForm                       // a job whose transaction is too large for etcd keeps its devices for ever (I9)
	GrantsStand                       // devices that a restored etcd has granted to a job are granted to another by one who does not know it (I3)
	ParkedOver                        // a generation starts, or a job is done, while processes run ahead for another (I1, I12)
	ParkedKnown                       // what a node has begun while it was told to prepare nothing any more is not waited for (I1)
	ColdAfterWarm                     // what only a warm start does ends a job that a cold one would train
	SameTimeline                      // what was said of a generation before etcd was restored counts for another of its number (I1, I2)
)
