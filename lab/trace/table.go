package trace

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSeconds bounds every time in a file, so that sums of them stay far from
// what a time.Duration can hold: thirty years.
const maxSeconds = 1e9

// table reads a CSV file cell by cell, collecting faults.
type table struct {
	faults
	csv   *csv.Reader
	head  []string
	cells []string
	line  int
}

// openTable takes in the header. Gzipped input is told by its first bytes.
func openTable(name string, r io.Reader) (*table, error) {
	b := bufio.NewReader(r)
	r = b
	if magic, err := b.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read %s: unzip: %w", name, err)
		}
		r = unzipped
	}
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(len(mark)) // what spreadsheets put in front; Peek has them
	}
	t := &table{faults: faults{file: name}, csv: csv.NewReader(r)}
	t.csv.FieldsPerRecord = -1
	t.csv.ReuseRecord = true
	head, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: it is empty; the first line has to name the columns", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	t.head = slices.Clone(head)
	for i, column := range t.head {
		if slices.Contains(t.head[:i], column) {
			return nil, &Fault{File: name, Line: 1, Field: "column", Value: column, Reason: "named twice", Remedy: "give each column one name"}
		}
	}
	return t, nil
}

// next goes to the next line that has as many cells as the header; false at the end.
func (t *table) next() (bool, error) {
	for {
		cells, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s after line %d: %w", t.file, t.line, err)
		}
		t.cells = cells
		t.line, _ = t.csv.FieldPos(0)
		if len(cells) == len(t.head) {
			return true, nil
		}
		t.add(Fault{
			Line: t.line, Reason: fmt.Sprintf("%d cells in a file of %d columns", len(cells), len(t.head)),
			Remedy: "is the file cut off? Write an empty cell where nothing is known",
		})
	}
}

// text returns a cell; empty if the file has no such column.
func (t *table) text(column string) string {
	if i := slices.Index(t.head, column); i >= 0 {
		return t.cells[i]
	}
	return ""
}

// fault reports the cell of a column.
func (t *table) fault(column, reason, remedy string) {
	t.add(Fault{Line: t.line, Field: column, Value: t.text(column), Reason: reason, Remedy: remedy})
}

// must is text of a cell that may not be empty.
func (t *table) must(column string) string {
	s := t.text(column)
	if s == "" {
		t.fault(column, "missing", "fill it in, or leave the line out")
	}
	return s
}

// number reads a finite number that is not negative; 0 for an empty cell.
func (t *table) number(column string) float64 {
	s := t.text(column)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		t.fault(column, "not a number", "write digits and a decimal point")
	case math.IsNaN(v) || math.IsInf(v, 0):
		t.fault(column, "not a finite number", "write a number, or leave the cell empty if none is known")
	case v < 0:
		t.fault(column, "negative", "write 0 or more")
	default:
		return v
	}
	return 0
}

// seconds reads a time; 0 for an empty cell.
func (t *table) seconds(column string) time.Duration {
	v := t.number(column)
	if v > maxSeconds {
		t.fault(column, "more than thirty years", "write seconds, not milliseconds")
		return 0
	}
	return time.Duration(math.Round(v * float64(time.Second)))
}

// count reads a whole number; 0 for an empty cell.
func (t *table) count(column string) int64 {
	v := t.number(column)
	if v != math.Trunc(v) || v > 1<<53 {
		t.fault(column, "not a whole number", "write digits only")
		return 0
	}
	return int64(v)
}

// positive is count of a cell that may be neither empty nor zero.
func (t *table) positive(column string) int {
	t.needed(column, "write 1 or more")
	return int(min(t.count(column), math.MaxInt32))
}

// rate is number of a cell that may be neither empty nor zero.
func (t *table) rate(column string) float64 {
	t.needed(column, "leave out what does not run at all")
	return t.number(column)
}

// needed reports a cell that is empty or zero.
func (t *table) needed(column, remedy string) {
	if s := t.must(column); s != "" && zero(s) {
		t.fault(column, "zero", remedy)
	}
}

// zero reports whether a cell is the number 0, however written.
func zero(cell string) bool {
	v, err := strconv.ParseFloat(cell, 64)
	return err == nil && v == 0
}

// sameColumns reports whether two lists name the same columns, in any order.
func sameColumns(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func list(columns []string) string { return strings.Join(columns, ",") }
