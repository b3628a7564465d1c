// Package milp puts the rolling-horizon problem of package solve to
// mixed-integer solvers that know nothing of Bellows, as a reference: what they
// call optimal is compared with what package solve found.
//
// The problem is written as a Model in one of two ways, as Hu et al. print it
// (Paper) or with one binary variable for each choice (Tight), and given to a
// Solver: HiGHS, compiled to WebAssembly and run inside this process without
// cgo, or CBC, an executable beside it. A solver's word is never taken: its
// counts are read out of its answer and valued by solve.Eval, and Compare says
// which plan is the better one. Nothing here is on the way of a decision that
// the cluster waits for.
//
//	model.go      variables and rows: data
//	formulate.go  a problem as a Model, and the plan in a solver's values
//	lp.go         a Model as a file in the LP format
//	reference.go  one problem, one solver, one checked answer; comparing it with ours
//	cbc.go        the executable cbc
//	highs.go      the WebAssembly of HiGHS: where it lies, that it is the right one, compiling it
//	highs_call.go one model through its C interface
//	highs_host.go what it needs of an operating system, which is next to nothing
package milp
