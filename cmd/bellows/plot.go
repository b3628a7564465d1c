package main

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
)

// The picture's measures, in pixels.
const (
	plotWidth, plotHeight = 640, 360
	plotLeft, plotBottom  = 70, 40
	plotTop, plotRight    = 30, 150
)

// plotColours tell policies apart, also for eyes that do not tell red from green.
var plotColours = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// writePlot draws mean completion against nodes, one picture a trace and one
// line a policy, into an SVG or a page.
func writePlot(name string, runs []*simulated) error {
	var traces []string
	for _, r := range runs {
		if !slices.Contains(traces, r.Trace) {
			traces = append(traces, r.Trace)
		}
	}
	var b strings.Builder
	for i, t := range traces {
		b.WriteString(picture(t, i*plotHeight, runs))
	}
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, plotWidth, plotHeight*len(traces), b.String())
	if strings.HasSuffix(name, ".html") {
		svg = "<!doctype html>\n<meta charset=\"utf-8\">\n<title>bellows simulate</title>\n" + svg
	}
	if err := os.WriteFile(name, []byte(svg), 0o644); err != nil {
		return fmt.Errorf("write plot %s: %w", name, reason(err))
	}
	return nil
}

// picture is one trace's part, offset downwards.
func picture(name string, offset int, runs []*simulated) string {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *simulated) bool { return r.Trace != name })
	byNodes := func(a, b *simulated) int { return cmp.Compare(a.Nodes, b.Nodes) }
	low, high := slices.MinFunc(runs, byNodes).Nodes, slices.MaxFunc(runs, byNodes).Nodes
	most := slices.MaxFunc(runs, func(a, b *simulated) int { return cmp.Compare(a.MeanCompletionS, b.MeanCompletionS) }).MeanCompletionS
	x := func(nodes int) float64 {
		if high == low {
			return plotLeft
		}
		return plotLeft + float64(nodes-low)/float64(high-low)*(plotWidth-plotLeft-plotRight)
	}
	y := func(s float64) float64 {
		return float64(offset+plotTop) + (1-s/max(most, 1))*(plotHeight-plotTop-plotBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<text x="%d" y="%d">%s: mean completion, s, against nodes</text>`+"\n", plotLeft, offset+18, html.EscapeString(name))
	for i := range 5 {
		v := most * float64(i) / 4
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n",
			plotLeft, y(v), plotWidth-plotRight, plotLeft-6, y(v)+4, v)
	}
	for i, p := range policiesOf(runs) {
		line := slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(runs), func(r *simulated) bool { return r.Policy != p })), byNodes)
		colour := plotColours[i%len(plotColours)]
		var points []string
		for _, r := range line {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(r.Nodes), y(r.MeanCompletionS)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(r.Nodes), y(r.MeanCompletionS), colour)
			if i == 0 {
				fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(r.Nodes), offset+plotHeight-plotBottom+16, r.Nodes)
			}
		}
		fmt.Fprintf(&b, "\n"+`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", plotWidth-plotRight+12, offset+plotTop+12+16*i, colour, html.EscapeString(p))
	}
	return b.String()
}
