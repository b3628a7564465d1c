package plot

import (
	"fmt"
	"html"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/internal/fault"
)

// CurvePoint is a point of a curve, with a few words beside it.
type CurvePoint struct {
	X, Y  float64
	Label string
	Bold  bool // the one that was chosen
}

// Curve is one quantity against another.
type Curve struct {
	Title, X, Y string
	Points      []CurvePoint
}

const (
	curveWidth, curveHeight = 640, 420
	curveLeft, curveRight   = 72, 96
	curveTop, curveBottom   = 44, 56
)

// WriteCurve draws the curve into an SVG or, by the file's name, a page of HTML.
func WriteCurve(name string, c Curve) error {
	svg := c.draw()
	if strings.HasSuffix(name, ".html") {
		svg = page("bellows plan", svg)
	}
	if err := os.WriteFile(name, []byte(svg), 0o644); err != nil {
		return fmt.Errorf("write plot %s: %w", name, fault.Reason(err))
	}
	return nil
}

// scale is an axis that begins at 0 unless all values are far from it.
type scale struct{ bottom, top, step float64 }

func scaleOf(values []float64) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if len(values) == 0 {
		low, high = 0, 1
	}
	if low < high/2 {
		low = 0
	}
	s := scale{step: niceStep(high - low)}
	s.bottom, s.top = math.Floor(low/s.step)*s.step, math.Ceil(high/s.step)*s.step
	if s.top <= s.bottom {
		s.top = s.bottom + s.step
	}
	return s
}

// part is where a value lies on the axis, from 0 to 1.
func (s scale) part(v float64) float64 { return (v - s.bottom) / (s.top - s.bottom) }

// ticks are the values at which the axis is marked.
func (s scale) ticks() []float64 {
	var out []float64
	for i := range int(math.Round((s.top-s.bottom)/s.step)) + 1 {
		out = append(out, s.bottom+float64(i)*s.step)
	}
	return out
}

func (c Curve) draw() string {
	var xs, ys []float64
	for _, p := range c.Points {
		xs, ys = append(xs, p.X), append(ys, p.Y)
	}
	sx, sy := scaleOf(xs), scaleOf(ys)
	x := func(v float64) float64 { return curveLeft + sx.part(v)*(curveWidth-curveLeft-curveRight) }
	y := func(v float64) float64 {
		return curveHeight - curveBottom - sy.part(v)*(curveHeight-curveTop-curveBottom)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11" fill="#222">
<rect width="100%%" height="100%%" fill="white"/>
<text x="12" y="22" font-size="14" font-weight="bold">%s</text>
`, curveWidth, curveHeight, curveWidth, curveHeight, html.EscapeString(c.Title))
	for _, v := range sy.ticks() {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			curveLeft, y(v), curveWidth-curveRight, curveLeft-6, y(v)+4, number(v))
	}
	for _, v := range sx.ticks() {
		fmt.Fprintf(&b, `<path d="M%.1f %dv5" stroke="#777"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x(v), curveHeight-curveBottom, x(v), curveHeight-curveBottom+18, number(v))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (curveLeft+curveWidth-curveRight)/2, curveHeight-16, html.EscapeString(c.X))
	fmt.Fprintf(&b, `<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %d)">%s</text>`+"\n", curveHeight/2, curveHeight/2, html.EscapeString(c.Y))
	var line []string
	var dots, chosen strings.Builder
	m := markOf(0)
	last := [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, p := range c.Points {
		px, py := x(p.X), y(p.Y)
		line = append(line, fmt.Sprintf("%.1f,%.1f", px, py))
		if p.Bold {
			chosen.WriteString(markOf(1).at(px, py)) // on top of the others
		} else {
			dots.WriteString(m.at(px, py))
		}
		if p.Bold || math.Abs(px-last[0]) > 30 || math.Abs(py-last[1]) > 14 { // labels must not lie on each other
			weight := "normal"
			if p.Bold {
				weight = "bold"
			}
			fmt.Fprintf(&dots, `<text x="%.1f" y="%.1f" font-weight="%s">%s</text>`, px+7, py-6, weight, html.EscapeString(p.Label))
			last = [2]float64{px, py}
		}
	}
	fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>%s%s`+"\n</svg>\n",
		strings.Join(line, " "), m.colour, dots.String(), chosen.String())
	return b.String()
}

// page puts a drawing on a page of HTML.
func page(title, svg string) string {
	return "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>" + title + "</title>\n" + svg + "</html>\n"
}
