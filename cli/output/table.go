package output

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// OrDash returns a cell that shows that there is nothing to show.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// minLastColumn is how narrow the last column of a table may become on a narrow terminal.
const minLastColumn = 12

// readableColumn is how wide the last column is to be if spare columns can be left out for it.
const readableColumn = 24

// Table is text in columns; the last one is cut to the terminal's width.
type Table struct {
	Head   []string // the columns
	rows   [][]string
	Paint  func(row, column int) string // the colour of a cell; may be nil
	Indent string
	// Spare are the columns that a terminal does without, the first one first: those in
	// which no row has anything, and others as long as the last column is narrow.
	Spare []string
}

// Add adds a row with a cell for each column of the head.
func (t *Table) Add(cells ...string) {
	for i, c := range cells {
		cells[i] = OneLine(c)
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table in a style.
func (t *Table) Write(w io.Writer, s Style) error {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	last := len(widths) - 1
	without := make([]bool, len(widths))
	if s.Width > 0 {
		left := t.fit(s.Width, widths, without)
		widths[last] = min(widths[last], max(left, minLastColumn))
	}
	var b strings.Builder
	line := func(row []string, colour func(int) string) {
		b.WriteString(t.Indent)
		for i, c := range row {
			if i == last {
				b.WriteString(s.Paint(colour(i), shorten(c, widths[i])))
				break
			}
			if without[i] {
				continue
			}
			b.WriteString(s.Paint(colour(i), c))
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		b.WriteByte('\n')
	}
	line(t.Head, func(int) string { return Faint })
	for r, row := range t.rows {
		line(row, func(column int) string {
			if t.Paint == nil {
				return ""
			}
			return t.Paint(r, column)
		})
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

// fit decides which of the spare columns a terminal does without, and returns how much
// is left for the last one.
func (t *Table) fit(width int, widths []int, without []bool) (left int) {
	last := len(widths) - 1
	left = width - utf8.RuneCountInString(t.Indent)
	for _, n := range widths[:last] {
		left -= n + 2
	}
	drop := func(column int) {
		if column >= 0 && !without[column] {
			without[column] = true
			left += widths[column] + 2
		}
	}
	for _, name := range t.Spare {
		column := slices.Index(t.Head, name)
		if !slices.ContainsFunc(t.rows, func(row []string) bool { return row[column] != OrDash("") }) {
			drop(column)
		}
	}
	for _, name := range t.Spare {
		if left < min(widths[last], readableColumn) {
			drop(slices.Index(t.Head, name))
		}
	}
	return left
}

// trimLines takes the blanks off the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// shorten cuts a text to a width, and shows that it did.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}
