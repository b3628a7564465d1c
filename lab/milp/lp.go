package milp

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// termsALine keeps lines short: solvers' readers have buffers of a fixed size.
const termsALine = 8

// WriteLP writes the model in the LP format of CPLEX, which CBC, HiGHS, GLPK
// and SCIP read. Numbers are written so that they are read back to the last bit.
func (m *Model) WriteLP(w io.Writer) error {
	b := lpWriter{Writer: bufio.NewWriter(w), m: m}
	b.text("\\ " + m.Name + "\nMaximize\n obj:")
	n := 0
	for c := range m.Columns {
		if v := m.Columns[c].Objective; v != 0 {
			b.term(n, v, c)
			n++
		}
	}
	b.text("\nSubject To\n")
	for r := range m.Rows {
		b.row(&m.Rows[r])
	}
	b.text("Bounds\n")
	for c := range m.Columns {
		x := &m.Columns[c]
		b.text(" " + number(x.Lower) + " <= " + x.Name + " <= " + number(x.Upper) + "\n")
	}
	b.text("Generals\n")
	for c := range m.Columns {
		if m.Columns[c].Integer {
			b.text(" " + m.Columns[c].Name + "\n")
		}
	}
	b.text("End\n")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write model %s: %w", m.Name, err)
	}
	return nil
}

// lpWriter writes; what goes wrong is said by Flush.
type lpWriter struct {
	*bufio.Writer
	m *Model
}

func (b lpWriter) text(s string) { _, _ = b.WriteString(s) }

func (b lpWriter) row(r *Row) {
	b.text(" " + r.Name + ":")
	n := 0
	for _, t := range r.Terms {
		if t.Coef != 0 {
			b.term(n, t.Coef, t.Column)
			n++
		}
	}
	b.text(" " + r.Sense.String() + " " + number(r.Limit) + "\n")
}

// term writes the n-th term of a sum.
func (b lpWriter) term(n int, coef float64, column int) {
	if n > 0 && n%termsALine == 0 {
		b.text("\n ")
	}
	sign := " + "
	if coef < 0 {
		sign, coef = " - ", -coef
	}
	b.text(sign + number(coef) + " " + b.m.Columns[column].Name)
}

// number is the shortest text that is read back as v.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
