// Package solve finds near-optimal allocations and certifies how near.
//
// Its main problem is the rolling horizon of Hu et al. (section 4): how many
// devices each job gets in each of a few steps, so that the area under the
// fraction-done curves is largest. Solver answers with a plan, its value, and
// an upper bound that no plan can exceed; Eval, which shares no code with the
// rest, values any plan. The answer is a pure function of the problem, to the
// last bit; a budget is a count of things tried, never a time.
//
// The method, in the order of the files:
//
//	eval.go      the value of a plan: the check on all the others
//	instance.go  a problem with what is computed of it once
//	shape.go     the states of one job: which counts it has had so far, in any order
//	price.go     the best plan of one job at given prices of a device in each step (exact)
//	dual.go      the prices at which demand meets supply: they give the bound
//	decoupled.go jobs too long to finish: steps decouple, a small knapsack each (exact)
//	core.go      the other jobs: near-best plans of each, and a search among them
//	label.go     all combinations that can still be better, until the budget is spent
//	lower.go     lower bounds that discard combinations
//
// One step by itself is a knapsack, and is solved as one: onestep.go exactly, by
// dynamic programming; onestep_hull.go by the relaxation to concave curves, with a
// bound, and onestep_core.go by the changes that can still be better, mostly with
// proof and faster by two orders of magnitude.
//
// For any feasible plan, bound - value = Σ over jobs of what its plan loses
// against its best one at the prices + Σ over steps of price × idle devices.
// So only plans that lose less than the gap matter, and the least loss of those
// that a search omits still bounds the optimum.
package solve
