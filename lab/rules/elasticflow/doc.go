// Package elasticflow follows the conventions of ElasticFlow's simulator (Gu et
// al., ASPLOS 2023), for the policies that its authors compare theirs with, and
// for production's admission of deadlines in its place.
//
//	Rules ──► decider (edf, filling, tiresias, gandiva): what one round of its simulator does
//	             │
//	             ├─ events: when something is due
//	             └─ places: which devices a job has, where that changes what a start costs
//
// New returns sim.Rules and the jobs as that simulator sees them. The rules keep
// no clock and read no file, and the same trace gives the same decisions.
package elasticflow
