// Package solve finds near-optimal allocations and certifies how near.
//
// Its main problem is the rolling horizon of Hu et al. (section 4): how many
// devices each job gets in each of a few steps, so that the area under the
// fraction-done curves is largest. Solver answers with a plan, its value, and
// an upper bound that no plan can exceed; Eval, which shares no code with the
// rest, values any plan. Everything is a pure function of the problem, to the
// last bit, for any number of cores; a budget is a count of things tried, never
// a time.
//
// The method, in the order of the files:
//
//	eval.go    what a plan is worth: the check on all the others
//	shape.go   the states of one job: which counts it has had so far, in any order
//	price.go   what one job does at given prices of a device in each step (exact)
//	dual.go    the prices at which demand meets supply: they give the bound
//	rest.go    jobs too long to finish: steps decouple, a small knapsack each (exact)
//	core.go    the other jobs: near-best plans of each, and a search among them
//	label.go   all combinations that can still be better, until the budget is spent
//
// One step by itself is a knapsack, and is solved as one: onestep.go exactly, by
// dynamic programming; onestep_hull.go by the relaxation to concave curves, with a
// bound, and onestep_core.go by what can still be better than that, mostly with
// proof and faster by two orders of magnitude.
//
// For any feasible plan, bound - value = Σ over jobs of what its plan loses
// against its best one at the prices + Σ over steps of price × idle devices.
// So only plans that lose less than the gap matter, and what a search leaves
// out still bounds the optimum by what it would lose.
package solve
