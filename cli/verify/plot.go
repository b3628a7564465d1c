package verify

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// Of the plot, in pixels.
const (
	plotWidth, plotHeight = 720, 360
	plotLeft, plotTop     = 70, 30
	plotRight, plotBottom = 20, 40
)

// Plot draws the losses of both trainings into an SVG file; where the world changes there is a line.
func (r Result) Plot(name string) error {
	if len(r.Losses) == 0 {
		return fmt.Errorf("plot %s: no losses were seen", name)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range r.Losses {
		low, high = min(low, l.Never, l.Rescaled), max(high, l.Never, l.Rescaled)
	}
	if high == low {
		high = low + 1
	}
	first, last := r.Losses[0].Step, r.Losses[len(r.Losses)-1].Step
	x := func(step int) float64 {
		return plotLeft + (plotWidth-plotLeft-plotRight)*float64(step-first)/float64(max(1, last-first))
	}
	y := func(loss float64) float64 {
		return plotTop + (plotHeight-plotTop-plotBottom)*(high-loss)/(high-low)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	var never, rescaled []string
	for n, l := range r.Losses {
		never = append(never, fmt.Sprintf("%.1f,%.1f", x(l.Step), y(l.Never)))
		rescaled = append(rescaled, fmt.Sprintf("%.1f,%.1f", x(l.Step), y(l.Rescaled)))
		if n == 0 || r.Losses[n-1].Workers != l.Workers {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#bbb"/><text x="%.1f" y="%d">%d</text>`+"\n",
				x(l.Step), x(l.Step), plotTop, plotHeight-plotBottom, x(l.Step)+2, plotTop+10, l.Workers)
		}
	}
	fmt.Fprintf(&b, `<polyline fill="none" stroke="#1f77b4" stroke-width="3" points="%s"/>`+"\n", strings.Join(never, " "))
	fmt.Fprintf(&b, `<polyline fill="none" stroke="#d62728" stroke-dasharray="6 4" points="%s"/>`+"\n", strings.Join(rescaled, " "))
	fmt.Fprintf(&b, `<text x="4" y="%d">%.4g</text><text x="4" y="%d">%.4g</text>`+"\n", plotTop+4, high, plotHeight-plotBottom, low)
	fmt.Fprintf(&b, `<text x="%d" y="%d">step %d</text><text x="%d" y="%d" text-anchor="end">%d</text>`+"\n",
		plotLeft, plotHeight-12, first, plotWidth-plotRight, plotHeight-12, last)
	fmt.Fprintf(&b, `<text x="%d" y="18" fill="#1f77b4">loss, never rescaled</text><text x="%d" y="18" fill="#d62728">rescaled (dashed); numbers of workers</text>`+"\n</svg>\n", plotLeft, plotLeft+180)
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
