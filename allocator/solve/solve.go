package solve

// Options say how hard to look. The zero value is the usual effort.
type Options struct {
	// Labels is the budget of the last search: how many combinations are kept
	// after each job. 0 stands for DefaultLabels.
	Labels int
	// Prices are those of an earlier Result, to begin with; nil = from nothing. They
	// make an answer cheaper, not better: those that do not fit the problem are left alone.
	Prices []float64
}

// DefaultLabels proves optimality on nearly all problems of 30 to 1,000 jobs.
const DefaultLabels = 300

// Result is a plan and what is known about it.
type Result struct {
	Plan   Plan    // owned by the Solver, valid until its next Solve
	Value  float64 // as Eval computes it
	Bound  float64 // no plan has a higher value
	Proved bool    // the plan is optimal
	Prices []float64
	Effort Effort
}

// Effort counts what was done, to judge budgets by.
type Effort struct {
	Evaluations int // of all jobs at some prices
	Labels      int // combinations tried
}
