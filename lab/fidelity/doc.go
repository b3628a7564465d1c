// Package fidelity compares the simulator with the cluster that it stands for.
// It draws mixes of jobs whose speeds differ, trains each mix on a real cluster
// (`bellows dev` with real processes, whose steps sleep as the job's curve says),
// simulates the same mix under the same policy, and reports both mean completion
// times.
//
// It promises that a mix depends on the seed alone, that what the simulator
// assumes of a start's cost was measured in other mixes than the one compared,
// and that no process of a cluster outlives the comparison. The cluster's folder
// is removed, also after an interruption; only a process that is killed leaves it.
package fidelity
