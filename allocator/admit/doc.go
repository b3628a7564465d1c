// Package admit answers whether a deadline can be kept, beside those that were
// promised before, and plans how many devices each job has so that it is.
//
// The method is ElasticFlow's (Gu et al., ASPLOS 2023): the jobs in the order of
// their deadlines, each with the least level of devices that keeps its own
// (its minimum satisfactory share) in what the earlier ones leave. New plans a
// whole cluster, Follow goes on as was promised, Plan.Admit adds one job to a plan
// and redoes only those with later deadlines. All keep a promise once made: a Job
// brings the Profile that it was promised, and where filling anew would break one,
// the promised profiles stand.
//
// In the order of the files:
//
//	problem.go  the jobs and the slots of time; what is wrong with them
//	check.go    whether profiles keep their deadlines: shares no code with the rest
//	ladder.go   the numbers of devices of a job that are worth having
//	free.go     how many devices are free, slot by slot
//	fill.go     the profile of one job at a level, and at the least level that will do
//	plan.go     filling all jobs; Admit
//	search.go   where filling fails: other profiles of the job and of its nearest rivals
//	spread.go   the devices that the plan leaves in the first slot, by marginal return
//	offer.go    what could be promised instead of a deadline that cannot
//
// What is promised holds under these terms: the job's work and speeds are as
// stated, no device is lost, decisions are made at each slot's end, and a start
// costs no more than its pause. Filling is sound, but not complete: some deadlines
// that could be kept are refused (docs/policies.md has the shares).
package admit
