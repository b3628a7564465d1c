package trace

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// readChronus reads Chronus's columns: several deadlines and what each is
// worth. Jobs that use no device are left out.
func readChronus(t *table, a *Arrival) bool {
	if t.text("gpus") == "0" {
		return false
	}
	switch t.must("best_effort") {
	case "0", "":
	case "1":
		a.BestEffort = true
	default:
		t.fault("best_effort", "unknown", "write 1 for a job without a deadline, else 0")
	}
	after, value := t.ladder("soft_deadlines_rel_min"), t.ladder("deadline_values")
	if len(after) != len(value) {
		t.fault("deadline_values", "not as many as soft_deadlines_rel_min", "give each deadline one value")
		return true
	}
	for i := range after {
		a.Soft = append(a.Soft, SoftDeadline{After: time.Duration(after[i] * float64(time.Minute)), Value: value[i]})
	}
	return true
}

// ladder reads numbers between dashes.
func (t *table) ladder(column string) []float64 {
	if t.text(column) == "" {
		return nil
	}
	var out []float64
	for part := range strings.SplitSeq(t.text(column), "-") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || math.IsNaN(v) || v < 0 || v*60 > maxSeconds {
			t.fault(column, "not a list of numbers", "write them with dashes between, as in 60-90")
			return nil
		}
		out = append(out, v)
	}
	return out
}
