package cluster

import (
	"strings"
	"unicode"
)

// Disturbs reports whether a character of another user's text could do something to
// a terminal or to how other text looks there: a control character, also a line
// break, or one that turns the direction of text, which lets a line look like
// another one.
func Disturbs(r rune) bool {
	switch {
	case r == '\u061c', r == '\u200e', r == '\u200f': // marks
	case r >= '\u202a' && r <= '\u202e': // embeddings and overrides
	case r >= '\u2066' && r <= '\u2069': // isolates
	default:
		return unicode.IsControl(r)
	}
	return true
}

// Printable takes out of a text what could command a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case Disturbs(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)
}
