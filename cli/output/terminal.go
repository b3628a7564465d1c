package output

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

// TerminalWidth returns the width of the terminal that a file is, and whether
// it is one. $COLUMNS goes before what the kernel says.
func TerminalWidth(f *os.File) (columns int, terminal bool) {
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

// Style says how to write for one file.
type Style struct {
	Terminal bool
	Width    int // 0 = unbounded
	Colour   bool
}

// StyleOf returns the style for a file: colours only for a terminal whose user wants them.
func StyleOf(f *os.File) Style {
	width, terminal := TerminalWidth(f)
	return Style{Terminal: terminal, Width: width, Colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// The colours that are used, as parameters of SGR.
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// Paint colours a text where the style has colours.
func (s Style) Paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Plain makes a text from elsewhere safe to show: control characters, which
// could move the cursor or rename the window, and those that turn the direction of
// text become spaces; lines stay.
func Plain(text string) string {
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

// OneLine is plain with the line breaks gone too.
func OneLine(text string) string { return strings.Join(strings.Fields(Plain(text)), " ") }

// Tame makes a line of a job's output safe for a terminal: of its escape
// sequences only colours (SGR) stay, and of what carriage returns overwrite only the last.
func Tame(line string) string {
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
