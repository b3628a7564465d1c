package milp

import (
	"fmt"
	"math"
)

// Model is a mixed-integer linear program whose objective is to be as large as
// possible. It is plain data; nothing changes it after it has been formulated.
type Model struct {
	Name    string
	Columns []Column
	Rows    []Row
}

// Column is a variable.
type Column struct {
	Name         string
	Objective    float64
	Lower, Upper float64 // finite
	Integer      bool
}

// Row is a constraint: the sum of its terms is at most, at least, or exactly Limit.
type Row struct {
	Name  string
	Sense Sense
	Limit float64
	Terms []Term
}

// Term is a coefficient and the index of the column that it multiplies.
type Term struct {
	Column int
	Coef   float64
}

// Sense is how a row's sum relates to its limit.
type Sense uint8

// The senses.
const (
	AtMost Sense = iota
	AtLeast
	Exactly
)

// String is the sense as the LP format writes it.
func (s Sense) String() string {
	switch s {
	case AtMost:
		return "<="
	case AtLeast:
		return ">="
	case Exactly:
		return "="
	}
	return fmt.Sprintf("Sense(%d)", uint8(s))
}

// bounds are the least and the most that a row's sum may be.
func (r *Row) bounds() (lower, upper float64) {
	lower, upper = math.Inf(-1), math.Inf(1)
	if r.Sense != AtMost {
		lower = r.Limit
	}
	if r.Sense != AtLeast {
		upper = r.Limit
	}
	return lower, upper
}
