package trace

import (
	"math"
	"time"
)

// readMuri reads Muri's column: one step's time. Its durations are what the
// cluster logged; the simulator there runs iterations × step time.
func readMuri(t *table, a *Arrival) bool {
	a.IterationTime = time.Duration(math.Round(t.rate("iter_time_ms") * float64(time.Millisecond)))
	t.needed("iterations", "write how many steps it runs")
	return true
}
