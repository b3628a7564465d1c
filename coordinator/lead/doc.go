// Package lead is the shell around package coordinator: it campaigns in etcd,
// loads the records, steps the coordinator and does what the effects ask for.
//
//	campaign ──► term: list + watch ──► Step ──► commit, ask, wake ──┐
//	    ▲          │        ▲                                        │
//	    └── lost ──┘        └──────── outcome, decision, tick ◄──────┘
//
// It promises to decide nothing. One goroutine owns the coordinator;
// transactions, questions to the policy and listings run beside it and come
// back as events. When leadership is lost the term ends at once, commits that
// are under way are given up, and no new one is sent; Run returns only when
// every goroutine that it started has ended.
package lead
