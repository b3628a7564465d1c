package plot

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/lab/batch"
)

// axes are where the values of one panel lie.
type axes struct {
	nodes             []int // there are, ascending
	bottom, top, step float64
	unit              string
	scale             float64 // of one unit
}

// draw is one panel of one trace's runs: lines against nodes, or bars if there is one size only.
func (p panel) draw(runs []*batch.Run, policies []string) string {
	a := p.axes(runs)
	var b strings.Builder
	title := p.title + a.unit
	if len(a.nodes) == 1 {
		title += " (" + units.Count(a.nodes[0], "node") + ")"
	}
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="12">%s</text>`+"\n", panelLeft, html.EscapeString(title))
	for i := range int(math.Round((a.top-a.bottom)/a.step)) + 1 {
		v := a.bottom + float64(i)*a.step
		colour := "#ddd"
		if math.Abs(v) < a.step/1e6 {
			v, colour = 0, "#777"
		}
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			panelLeft, a.y(v*a.scale), panelWidth-panelRight, colour, panelLeft-6, a.y(v*a.scale)+4, strconv.FormatFloat(v, 'g', 6, 64))
	}
	middle := (panelLeft + panelWidth - panelRight) / 2
	if len(a.nodes) > 1 {
		for _, n := range a.nodes {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, a.x(n), panelHeight-panelBottom+16, n)
		}
		fmt.Fprintf(&b, "\n"+`<text x="%d" y="%d" text-anchor="middle">nodes</text>`+"\n", middle, panelHeight-panelBottom+32)
	}
	for i, name := range policies {
		if len(a.nodes) == 1 {
			b.WriteString(p.bar(runs, policies, i, a))
		} else {
			b.WriteString(p.line(runs, name, markOf(i), a))
		}
	}
	return b.String()
}

// axes finds a scale for all values, with 0 on it.
func (p panel) axes(runs []*batch.Run) axes {
	a := axes{scale: 1}
	low, high := 0.0, 0.0
	for _, r := range runs {
		if v, ok := p.value(r); ok {
			low, high = min(low, v), max(high, v)
		}
		a.nodes = append(a.nodes, r.Nodes)
	}
	slices.Sort(a.nodes)
	a.nodes = slices.Compact(a.nodes)
	if p.time {
		a.unit, a.scale = timeUnit(high)
	}
	a.step = niceStep((high - low) / a.scale)
	a.bottom, a.top = math.Floor(low/a.scale/a.step)*a.step, math.Ceil(high/a.scale/a.step)*a.step
	if a.top == a.bottom {
		a.top += a.step
	}
	return a
}

func (a axes) x(nodes int) float64 {
	first, last := a.nodes[0], a.nodes[len(a.nodes)-1]
	return panelLeft + 10 + float64(nodes-first)/float64(last-first)*(panelWidth-panelLeft-panelRight-20)
}

func (a axes) y(v float64) float64 {
	return panelTop + (a.top-v/a.scale)/(a.top-a.bottom)*(panelHeight-panelTop-panelBottom)
}

// line is one policy against nodes.
func (p panel) line(runs []*batch.Run, name string, m mark, a axes) string {
	own := slices.DeleteFunc(slices.Clone(runs), func(r *batch.Run) bool { _, ok := p.value(r); return r.Policy != name || !ok })
	slices.SortStableFunc(own, func(x, y *batch.Run) int { return cmp.Compare(x.Nodes, y.Nodes) })
	var points []string
	var marks strings.Builder
	for _, r := range own {
		v, _ := p.value(r)
		points = append(points, fmt.Sprintf("%.1f,%.1f", a.x(r.Nodes), a.y(v)))
		marks.WriteString(m.at(a.x(r.Nodes), a.y(v)))
	}
	return fmt.Sprintf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>%s`+"\n",
		strings.Join(points, " "), m.colour, m.dash, marks.String())
}

// bar is the ith policy at the only size.
func (p panel) bar(runs []*batch.Run, policies []string, i int, a axes) string {
	r := runs[slices.IndexFunc(runs, func(r *batch.Run) bool { return r.Policy == policies[i] })]
	v, ok := p.value(r)
	if !ok {
		return ""
	}
	wide := float64(panelWidth-panelLeft-panelRight) / float64(len(policies))
	x := panelLeft + (float64(i)+0.5)*wide
	m := markOf(i)
	const foot = panelHeight - panelBottom + 10
	return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="0.55" stroke="%s" stroke-dasharray="%s"/>%s`+
		`<text x="%.1f" y="%d" font-size="9" text-anchor="end" transform="rotate(-40 %.1f %d)">%s</text>`+"\n",
		x-wide*0.35, a.y(max(v, 0)), wide*0.7, a.y(min(v, 0))-a.y(max(v, 0)), m.colour, m.colour, m.dash, m.at(x, a.y(v)),
		x+4, foot, x+4, foot, html.EscapeString(policies[i]))
}

// timeUnit is the unit in which times up to most seconds read well.
func timeUnit(most float64) (name string, seconds float64) {
	switch {
	case most >= 3*86400:
		return ", days", 86400
	case most >= 3*3600:
		return ", hours", 3600
	case most >= 300:
		return ", minutes", 60
	}
	return ", seconds", 1
}

// niceStep is a step of 1, 2 or 5 times a power of ten that cuts a range into about five.
func niceStep(length float64) float64 {
	if !(length > 0) {
		return 1
	}
	raw := length / 5
	ten := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range [...]float64{1, 2, 5} {
		if raw <= f*ten*1.0000001 {
			return f * ten
		}
	}
	return 10 * ten
}
