package pollux

import (
	"math"

	"github.com/bellows-ml/bellows/lab/trace"
)

// within interpolates step times linearly inside the Delaunay simplex around q,
// false if q lies outside of all points. That simplex is the solution of a
// small linear program: among all ways to write q as a mean of points, the one
// with the least mean squared distance. So no triangulation is made.
//
// Measurements lie on a grid, where that simplex is not the only one: a
// rectangle of workers and local batches can be cut along either diagonal. The
// answer is the mean of both; libraries differ in which one they take.
func within(points []trace.PolluxPoint, q [3]float64) (stepTime, bool) {
	a, ok := leaning(points, q, 1)
	b, ok2 := leaning(points, q, -1)
	return stepTime{(a.step + b.step) / 2, (a.sync + b.sync) / 2}, ok && ok2
}

// leaning interpolates along one of the diagonals.
func leaning(points []trace.PolluxPoint, q [3]float64, way float64) (stepTime, bool) {
	lp := newMeans(points, q, way)
	if !lp.solve(lp.infeasible) {
		return stepTime{}, false
	}
	for r, b := range lp.basis {
		if b >= len(points) && lp.at[r] > meansSlack {
			return stepTime{}, false
		}
	}
	lp.solve(lp.spread)
	var t stepTime
	for r, b := range lp.basis {
		if b < len(points) {
			t.step += lp.at[r] * points[b].Step
			t.sync += lp.at[r] * points[b].Sync
		}
	}
	return t, true
}

const (
	meansRows  = 4 // three coordinates and the sum of the weights
	meansSlack = 1e-9
	meansLean  = 1e-3    // of one square, to choose among equals
	meansMost  = 100_000 // pivots, far more than any table needs
)

// means is the linear program: a tableau kept in full, for a few hundred
// columns of four rows each. The last four columns are artificial.
type means struct {
	columns    [][meansRows]float64
	infeasible []float64 // the cost of the first phase
	spread     []float64 // and of the second
	basis      [meansRows]int
	at         [meansRows]float64
}

func newMeans(points []trace.PolluxPoint, q [3]float64, way float64) *means {
	lp := &means{}
	var scale [3]float64
	away := func(p trace.PolluxPoint) [3]float64 {
		return [3]float64{float64(p.Nodes) - q[0], float64(p.Workers) - q[1], float64(p.Local) - q[2]}
	}
	most := 1.0
	for _, p := range points {
		squared := 0.0
		for i, d := range away(p) {
			scale[i] = math.Max(scale[i], math.Abs(d))
			squared += float64(d * d)
		}
		most = math.Max(most, squared)
	}
	for _, p := range points {
		c, squared := [meansRows]float64{3: 1}, 0.0
		for i, d := range away(p) {
			c[i] = d / math.Max(scale[i], 1)
			squared += float64(d * d)
		}
		lp.columns = append(lp.columns, c)
		lp.infeasible = append(lp.infeasible, 0)
		lean := way * meansLean * float64(c[1]*c[2])
		lp.spread = append(lp.spread, (squared+lean)/most)
	}
	for r := range meansRows {
		c := [meansRows]float64{}
		c[r] = 1
		lp.basis[r] = len(lp.columns)
		lp.columns = append(lp.columns, c)
		lp.infeasible = append(lp.infeasible, 1)
		lp.spread = append(lp.spread, meansMost)
	}
	lp.at[3] = 1
	return lp
}

// solve pivots until no column lowers the cost, by Bland's rule, which cannot
// cycle; false if it does not end within meansMost pivots.
func (lp *means) solve(cost []float64) bool {
	for range meansMost {
		enter := -1
		for c := range lp.columns {
			reduced := cost[c]
			for r, b := range lp.basis {
				reduced -= float64(cost[b] * lp.columns[c][r])
			}
			if reduced < -1e-13 {
				enter = c
				break
			}
		}
		if enter < 0 {
			return true
		}
		leave, least := -1, math.Inf(1)
		for r := range meansRows {
			if a := lp.columns[enter][r]; a > meansSlack {
				ratio := lp.at[r] / a
				if ratio < least-1e-12 || ratio < least+1e-12 && leave >= 0 && lp.basis[r] < lp.basis[leave] {
					leave, least = r, ratio
				}
			}
		}
		if leave < 0 {
			return false
		}
		lp.pivot(leave, enter)
	}
	return false
}

// pivot brings a column into the basis in place of row's.
func (lp *means) pivot(row, enter int) {
	by := lp.columns[enter]
	lp.at[row] /= by[row]
	for r := range meansRows {
		if r != row {
			lp.at[r] = math.Max(0, lp.at[r]-float64(by[r]*lp.at[row]))
		}
	}
	for c := range lp.columns {
		x := &lp.columns[c]
		x[row] /= by[row]
		for r := range meansRows {
			if r != row {
				x[r] -= float64(by[r] * x[row])
			}
		}
	}
	lp.basis[row] = enter
}
