package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// minLastColumn is how narrow the last column of a table may become on a narrow terminal.
const minLastColumn = 12

// table is text in columns; the last one is cut to the terminal's width.
type table struct {
	head   []string
	rows   [][]string
	paint  func(row, column int) string // the colour of a cell; may be nil
	indent string
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = oneLine(c)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer, s style) error {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	last := len(widths) - 1
	if s.width > 0 {
		left := s.width - utf8.RuneCountInString(t.indent)
		for _, n := range widths[:last] {
			left -= n + 2
		}
		widths[last] = min(widths[last], max(left, minLastColumn))
	}
	var b strings.Builder
	line := func(row []string, colour func(int) string) {
		b.WriteString(t.indent)
		for i, c := range row {
			if i == last {
				b.WriteString(s.paint(colour(i), shorten(c, widths[i])))
				break
			}
			b.WriteString(s.paint(colour(i), c))
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		b.WriteByte('\n')
	}
	line(t.head, func(int) string { return faint })
	for r, row := range t.rows {
		line(row, func(column int) string {
			if t.paint == nil {
				return ""
			}
			return t.paint(r, column)
		})
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
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
