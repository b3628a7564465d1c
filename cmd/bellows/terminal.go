package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
	"unsafe"

	"github.com/bellows-ml/bellows/cluster"
)

// windowSize is the kernel's struct winsize.
type windowSize struct{ rows, columns, _, _ uint16 }

// terminalWidth returns the width of the terminal that a file is, and whether
// it is one. $COLUMNS goes before the kernel's word.
func terminalWidth(f *os.File) (columns int, terminal bool) {
	var size windowSize
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0, false
	}
	columns = int(size.columns)
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		columns = n
	}
	return columns, true
}

// style says how to write for one file.
type style struct {
	terminal bool
	width    int // 0 = unbounded
	colour   bool
}

func styleOf(f *os.File) style {
	width, terminal := terminalWidth(f)
	return style{terminal: terminal, width: width, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// The colours that are used, as parameters of SGR.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (s style) paint(colour, text string) string {
	if !s.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// plain makes a text from elsewhere safe to show: control characters, which
// could move the cursor or rename the window, and those that turn the direction of
// text become spaces; lines stay.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		if cluster.Disturbs(r) {
			return ' '
		}
		return r
	}, text)
}

// oneLine is plain with the line breaks gone too.
func oneLine(text string) string { return strings.Join(strings.Fields(plain(text)), " ") }

// tame makes a line of a job's output safe for a terminal: of its escape
// sequences only colours (SGR) stay, and of what carriage returns overwrite only the last.
func tame(line string) string {
	if i := strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r'); i >= 0 {
		line = line[i+1:]
	}
	if strings.IndexFunc(line, cluster.Disturbs) < 0 {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			sequence, colour := escape(line[i:])
			if colour {
				b.WriteString(line[i : i+sequence])
			}
			i += sequence
			continue
		}
		r, size := utf8.DecodeRuneInString(line[i:])
		if r == '\t' || !cluster.Disturbs(r) {
			b.WriteString(line[i : i+size])
		}
		i += size
	}
	return b.String()
}

// escape measures the escape sequence that s begins with, and reports whether it only sets colours.
func escape(s string) (length int, colour bool) {
	if len(s) < 2 {
		return len(s), false
	}
	switch s[1] {
	case '[': // CSI: parameters, then one final byte
		for i := 2; i < len(s); i++ {
			if c := s[i]; c >= 0x40 && c <= 0x7e {
				return i + 1, c == 'm' && strings.Trim(s[2:i], "0123456789;:") == ""
			} else if c < 0x20 || c > 0x7e {
				return i, false
			}
		}
		return len(s), false
	case ']', 'P', '_', '^', 'X': // OSC and the other strings: up to BEL or ESC \
		for i := 2; i < len(s); i++ {
			if s[i] == '\a' {
				return i + 1, false
			}
			if s[i] == '\x1b' {
				return min(i+2, len(s)), false
			}
		}
		return len(s), false
	}
	return 2, false
}
