// Package elasticflow follows the conventions of ElasticFlow's simulator (Gu et
// al., ASPLOS 2023), for its own policy and for those that its authors compare it with.
//
//	Rules ──► decider (edf, filling, tiresias, gandiva): what one round of its simulator does
//	             │
//	             ├─ fill: one job in filling's plan
//	             ├─ events: when something is due
//	             └─ places: which devices a job has, where that changes what a start costs
//
// New returns sim.Rules and the jobs as that simulator sees them. The rules keep
// no clock and read no file, and the same trace gives the same decisions.
package elasticflow
