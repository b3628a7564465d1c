package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// parts are what the runs of a benchmark took, by part, in the order in which
// the parts were first named.
type parts struct {
	names []string
	took  map[string][]time.Duration
}

// add notes what one run's part took.
func (p *parts) add(name string, d time.Duration) {
	if p.took == nil {
		p.took = map[string][]time.Duration{}
	}
	if _, known := p.took[name]; !known {
		p.names = append(p.names, name)
	}
	p.took[name] = append(p.took[name], d)
}

// percentile returns the smallest value that at least that many of a hundred
// do not exceed (nearest rank); values are sorted and not empty.
func percentile(values []time.Duration, percent int) time.Duration {
	rank := (len(values)*percent + 99) / 100
	return values[max(rank, 1)-1]
}

// report adds median and 99th percentile of each part to the benchmark's line,
// and prints the whole distribution as a table.
func (p *parts) report(b *testing.B) {
	b.Helper()
	var table strings.Builder
	fmt.Fprintf(&table, "%s, milliseconds\n%-10s %5s %9s %9s %9s %9s %9s\n", b.Name(), "part", "runs", "min", "p50", "p90", "p99", "max")
	for _, name := range p.names {
		all := slices.Sorted(slices.Values(p.took[name]))
		ms := func(percent int) float64 { return float64(percentile(all, percent).Microseconds()) / 1000 }
		fmt.Fprintf(&table, "%-10s %5d %9.1f %9.1f %9.1f %9.1f %9.1f\n", name, len(all), ms(0), ms(50), ms(90), ms(99), ms(100))
		b.ReportMetric(ms(50), name+"-p50-ms")
		b.ReportMetric(ms(99), name+"-p99-ms")
	}
	b.Log(table.String())
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		values  []time.Duration
		percent int
		want    time.Duration
	}{
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred[:1], 99, 1},
		{hundred[:20], 50, 10},
		{hundred[:20], 90, 18},
		{hundred[:20], 99, 20},
		{hundred[:3], 50, 2},
	} {
		if got := percentile(c.values, c.percent); got != c.want {
			t.Errorf("percentile %d of %d values is %d, want %d", c.percent, len(c.values), got, c.want)
		}
	}
}
