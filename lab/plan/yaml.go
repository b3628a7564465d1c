package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// reader reads a list of maps and collects what is wrong with them.
type reader struct {
	name   string
	faults fault.List
}

// items returns the maps of the list that the file's only key holds.
func (r *reader) items(text []byte, key, example string) []yamltext.Value {
	doc, err := yamltext.Read(text)
	switch {
	case errors.Is(err, yamltext.ErrEmpty), errors.Is(err, yamltext.ErrSeveral):
		r.faults.Usage("%s: %w; write %s", r.name, err, example)
		return nil
	case err != nil:
		r.faults.Add(fault.AsUsage(yamltext.Fault(r.name, err)))
		return nil
	}
	var list yamltext.Value
	for _, e := range doc.Entries() {
		if e.Key != key || list.Line > 0 {
			r.fault(e.Line, "%q: the file has one key, %s; write %s", e.Key, key, example)
			continue
		}
		list = e.Value
	}
	items := list.Items()
	if len(items) == 0 && len(r.faults) == 0 {
		r.fault(max(1, doc.Line), "there is no list %s; write %s", key, example)
	}
	return items
}

func (r *reader) fault(line int, format string, args ...any) {
	r.faults.Usage("%s:%d: %s", r.name, line, fmt.Sprintf(format, args...))
}

// entries hands each key of a map to a function, which reports false if it knows none of the name.
func (r *reader) entries(v yamltext.Value, keys []string, take func(e yamltext.Entry)) {
	if v.Kind != yamltext.Map {
		r.fault(v.Line, "write keys and values: %s", strings.Join(keys, ", "))
		return
	}
	seen := map[string]int{}
	for _, e := range v.Entries() {
		switch first, again := seen[e.Key]; {
		case again:
			r.fault(e.Line, "%s is given twice, first in line %d: keep one", e.Key, first)
		case !slices.Contains(keys, e.Key):
			r.fault(e.Line, "unknown key %.40q: use %s", e.Key, strings.Join(keys, ", "))
		default:
			seen[e.Key] = e.Line
			take(e)
		}
	}
}

// text reads a text that is not empty.
func (r *reader) text(e yamltext.Entry) string {
	if e.Value.Kind != yamltext.Text || e.Value.Text == "" {
		r.fault(e.Value.Line, "%s %.40q: write a name", e.Key, e.Value.Text)
		return ""
	}
	return e.Value.Text
}

// leastNumber and mostNumber bound what is read: what is beyond is a slip, and sums of such are none.
const leastNumber, mostNumber = 1e-9, 1e9

// positive reads a number above 0.
func (r *reader) positive(e yamltext.Entry, remedy string) float64 {
	v, err := strconv.ParseFloat(e.Value.Text, 64)
	switch {
	case e.Value.Quoted && err == nil && v > 0:
		r.fault(e.Value.Line, "%s %.40q: it is a text; leave its quotation marks out", e.Key, e.Value.Text)
	case e.Value.Kind != yamltext.Text || err != nil || !(v > 0) || math.IsInf(v, 0):
		r.fault(e.Value.Line, "%s %.40q: %s", e.Key, e.Value.Text, remedy)
	case v < leastNumber || v > mostNumber:
		r.fault(e.Value.Line, "%s %.40q: use a number from %g to %g", e.Key, e.Value.Text, leastNumber, mostNumber)
	default:
		return v
	}
	return 0
}

// count reads a whole number from one to most.
func (r *reader) count(e yamltext.Entry, most int) int {
	n, err := strconv.Atoi(e.Value.Text)
	if e.Value.Kind != yamltext.Text || e.Value.Quoted || err != nil || n < 1 || n > most {
		r.fault(e.Value.Line, "%s %.40q: use a whole number from 1 to %d", e.Key, e.Value.Text, most)
		return 0
	}
	return n
}

// hours reads a time from the plan's beginning, or a length.
func (r *reader) hours(e yamltext.Entry, least time.Duration) float64 {
	d, err := time.ParseDuration(e.Value.Text)
	if e.Value.Kind != yamltext.Text || err != nil || d < least {
		r.fault(e.Value.Line, "%s %.40q: use a time with its unit that is not negative, as in 90m or 36h", e.Key, e.Value.Text)
		return 0
	}
	return d.Hours()
}
