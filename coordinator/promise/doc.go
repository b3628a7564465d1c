// Package promise decides which deadlines are promised, and keeps the plan by which
// they are kept: record.Promises, how many devices each promised job has in which
// slot of time.
//
//	v := promise.Decide(cluster, job)  // the answer to a job that asks; v.Plan is the plan with it
//	r := promise.Review(cluster)       // the plan as it has to be now
//
// It promises that no answer breaks a promise made before, and that a promise which
// can no longer be kept is moved within its job's grace before it is broken. A policy
// that promises gives the jobs the devices of the plan (allocator.Promising). See
// ADRs 46, 54 and 57. The package is pure: package coordinator says what is known of
// the cluster and its jobs, and writes the plan.
package promise
