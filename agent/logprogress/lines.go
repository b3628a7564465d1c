package logprogress

import (
	"bytes"
	"regexp"
)

// maxLine is how much of a line is looked at, in bytes.
const maxLine = 4 << 10

// lines cuts a stream into what a terminal would have shown as a line at some moment:
// each ends with a line feed, or with the carriage return by which a bar goes back to be
// drawn anew. The zero value is ready.
type lines struct {
	rest []byte
	back bool // a carriage return began rest: a bar is drawn, and all of it may have come
}

// escapes are what moves the cursor and colours text.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// add calls each for the lines that b ends, and for a bar that it leaves drawn. A line is
// valid until each returns.
func (l *lines) add(b []byte, each func([]byte)) {
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			l.keep(b)
			break
		}
		l.keep(b[:i])
		l.end(each)
		l.back = b[i] == '\r'
		b = b[i+1:]
	}
	if l.back && len(l.rest) > 0 {
		each(plain(l.rest))
	}
}

// end ends a line that has no end of its own.
func (l *lines) end(each func([]byte)) {
	if len(l.rest) > 0 {
		each(plain(l.rest))
	}
	l.rest = l.rest[:0]
}

func (l *lines) keep(b []byte) {
	l.rest = append(l.rest, b[:min(len(b), maxLine-len(l.rest))]...)
}

func plain(line []byte) []byte {
	if bytes.IndexByte(line, '\x1b') < 0 {
		return line
	}
	return escapes.ReplaceAll(line, nil)
}
