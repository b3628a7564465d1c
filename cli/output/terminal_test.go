package output

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestTameKeepsColoursOnly(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                         "plain",
		"tab\tstays":                    "tab\tstays",
		"\x1b[31mred\x1b[0m":            "\x1b[31mred\x1b[0m",
		"\x1b[38;5;12mblue":             "\x1b[38;5;12mblue",
		"\x1b[2Jcleared":                "cleared",
		"\x1b[1;1Hhome":                 "home",
		"\x1b]0;title\atext":            "text",
		"\x1b]0;title\x1b\\text":        "text",
		"\x1b]0;never ended":            "",
		"\x1bPq#0\x1b\\x":               "x",
		"\x1bcreset":                    "reset",
		"bell\a, back\b":                "bell, back",
		"1%\r50%\r100%":                 "100%",
		"done\r":                        "done",
		"é and \u009b31m C1":            "é and 31m C1",
		"\x1b[31":                       "",
		"\x1b[>0m":                      "",
		"\x1b[3\x1b[31mnested \x1b[m":   "\x1b[31mnested \x1b[m",
		"\x1b":                          "",
		"pay \u202e001\u202c now\u200f": "pay 001 now",
	} {
		if got := Tame(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzTame(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m\x1b]0;x\a\r\n")
	f.Fuzz(func(t *testing.T, line string) {
		got := Tame(line)
		for rest := got; ; {
			i := strings.IndexFunc(rest, func(r rune) bool { return cluster.Disturbs(r) && r != '\t' })
			if i < 0 {
				break
			}
			length, colour := escape(rest[i:])
			if rest[i] != '\x1b' || !colour {
				t.Fatalf("%q became %q", line, got)
			}
			rest = rest[i+length:]
		}
	})
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"abc", 0, "…"}} {
		if got := shorten(c.text, c.width); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
