// Package lookahead predicts when waiting jobs will start: it runs a policy forward in
// virtual time from a snapshot, again and again, each time in another future.
//
//	Question ──► future 1: jobs end, others come, the policy is asked as a leader would ask ──► starts
//	         ──► future 2: …                                                               ──► starts
//	         ──► …                                   of all futures: median, and nine in ten ──► Start
//
// The futures differ in two things. How long jobs still take is drawn from what is known
// of that. And the jobs that are still to come are those that came lately, once more, each
// future beginning at another moment of that time: bursts, nights and sizes are as they were.
//
// ADR 48 says why it runs where it is asked for, from the records alone. It decides nothing, and costs a bounded number of questions: where that is not enough, it
// answers that a job starts later than the moment it has come to. The same Question gives
// the same answer.
package lookahead
