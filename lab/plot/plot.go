package plot

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/batch"
)

// The measures of the drawing, in pixels. A row is one trace; each of its panels is one quantity.
const (
	panelWidth, panelHeight = 360, 272
	panelLeft, panelRight   = 64, 16
	panelTop, panelBottom   = 34, 56
	rowTitle, legendHeight  = 30, 30
)

// mark is what tells a policy from the others: colour, dash and shape, so that
// colour-blind readers and black-and-white prints can tell them apart.
type mark struct{ colour, dash, shape string }

var marks = [...]mark{
	{"#0072b2", "", "circle"},
	{"#d55e00", "7 3", "square"},
	{"#009e73", "2 3", "diamond"},
	{"#cc79a7", "9 3 2 3", "triangle"},
	{"#e69f00", "", "square"},
	{"#56b4e9", "7 3", "diamond"},
	{"#000000", "2 3", "circle"},
	{"#7a5195", "9 3 2 3", "circle"},
}

// markOf is the ith policy's mark: the list twice, the second time with the
// dash and shape of the next colour.
func markOf(i int) mark {
	m := marks[i%len(marks)]
	if next := marks[(i+1)%len(marks)]; i/len(marks)%2 == 1 {
		m.dash, m.shape = next.dash, next.shape
	}
	return m
}

// at draws the mark's shape.
func (m mark) at(x, y float64) string {
	switch m.shape {
	case "square":
		return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="6.4" height="6.4" fill="%s"/>`, x-3.2, y-3.2, m.colour)
	case "diamond":
		return fmt.Sprintf(`<path d="M%.1f %.1fl4.4 4.4l-4.4 4.4l-4.4 -4.4z" fill="%s"/>`, x, y-4.4, m.colour)
	case "triangle":
		return fmt.Sprintf(`<path d="M%.1f %.1fl4.4 7.6h-8.8z" fill="%s"/>`, x, y-4.6, m.colour)
	}
	return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="3.6" fill="%s"/>`, x, y, m.colour)
}

// panel is one quantity against the number of nodes.
type panel struct {
	title string
	value func(*batch.Run) (float64, bool)
	time  bool // in seconds, to be written in the unit that suits
}

func panels() []panel {
	always := func(f func(*batch.Run) float64) func(*batch.Run) (float64, bool) {
		return func(r *batch.Run) (float64, bool) { return f(r), true }
	}
	return []panel{
		{"Mean completion", always(func(r *batch.Run) float64 { return r.MeanCompletionS }), true},
		{"Mean queueing", always(func(r *batch.Run) float64 { return r.MeanQueueingS }), true},
		{"Jobs beyond each 100 of greedy's", func(r *batch.Run) (float64, bool) {
			if r.AdditionalJobsPer100 == nil {
				return 0, false
			}
			return *r.AdditionalJobsPer100, true
		}, false},
		{"Rescales per job", always(func(r *batch.Run) float64 { return r.RescalesPerJob }), false},
	}
}

// CheckName says what is wrong with the name of a file, as a value of --plot; empty is none.
func CheckName(name string) error {
	if name == "" || strings.HasSuffix(name, ".svg") || strings.HasSuffix(name, ".html") {
		return nil
	}
	return fault.Usage("--plot %q: name a file that ends in .svg or .html", name)
}

// Write draws the runs into an SVG or, by the file's name, a page of HTML, one row a trace.
func Write(name string, runs []*batch.Run) error {
	shown := slices.DeleteFunc(panels(), func(p panel) bool {
		return !slices.ContainsFunc(runs, func(r *batch.Run) bool { _, ok := p.value(r); return ok })
	})
	var traces []string
	for _, r := range runs {
		if !slices.Contains(traces, r.Trace) {
			traces = append(traces, r.Trace)
		}
	}
	policies := batch.Policies(runs)
	width := panelWidth * len(shown)
	head, legendRows := legend(policies, width)
	var b strings.Builder
	b.WriteString(head)
	top := legendRows*legendHeight + 4
	for _, t := range traces {
		fmt.Fprintf(&b, `<text x="12" y="%d" font-size="14" font-weight="bold">%s</text>`+"\n", top+20, html.EscapeString(filepath.Base(t)))
		of := slices.DeleteFunc(slices.Clone(runs), func(r *batch.Run) bool { return r.Trace != t })
		for i, p := range shown {
			fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n%s</g>\n", i*panelWidth, top+rowTitle, p.draw(of, policies))
		}
		top += rowTitle + panelHeight
	}
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11" fill="#222">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, width, top, width, top, b.String())
	if strings.HasSuffix(name, ".html") {
		svg = page("Simulations", svg)
	}
	if err := os.WriteFile(name, []byte(svg), 0o644); err != nil {
		return fmt.Errorf("write plot %s: %w", name, fault.Reason(err))
	}
	return nil
}

// legend names the policies beside their marks, in as many rows as it takes.
func legend(policies []string, width int) (svg string, rows int) {
	var b strings.Builder
	x, y := 12, legendHeight/2+4
	for i, p := range policies {
		wide := 56 + 7*len(p)
		if x+wide > width && x > 12 {
			x, y = 12, y+legendHeight
		}
		m := markOf(i)
		fmt.Fprintf(&b, `<path d="M%d %dh28" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>%s<text x="%d" y="%d" font-size="12">%s</text>`+"\n",
			x, y, m.colour, m.dash, m.at(float64(x+14), float64(y)), x+34, y+4, html.EscapeString(p))
		x += wide
	}
	return b.String(), (y + legendHeight/2) / legendHeight
}
