// Package batch runs many simulations: every combination of traces, numbers of
// nodes and policies, on all cores.
//
//	Settings ─► Complete: faults, and what --rules fixes
//	         ─► Runs: reads the files, one Run for each combination
//	         ─► Execute: runs them   ─► Compare: against the baseline
//
// The same Settings give the same runs, byte for byte, on every machine; only
// times that were measured differ. Faults of Settings name the flag of bellows
// simulate that sets the field. The fields of Report are a contract.
package batch
