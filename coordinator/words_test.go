package coordinator_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// words are an event's arguments: plain ones, and key=value.
type words struct {
	plain []string
	named map[string]string
	line  *line // what becomes of the words of a story; nil where Go has written them
}

// A line of a story knows which of its words its verb has read. A word that the verb
// does not read would change nothing, and the story would show something else than it says.
type line struct {
	plain map[int]bool
	named map[string]bool
	wrong []error
}

func parse(fields []string) words {
	w := words{named: map[string]string{}, line: &line{plain: map[int]bool{}, named: map[string]bool{}}}
	for _, f := range fields {
		k, v, ok := strings.Cut(f, "=")
		if !ok {
			w.plain = append(w.plain, f)
			continue
		}
		if _, twice := w.named[k]; twice {
			w.fault("%s= is given twice", k)
		}
		w.named[k] = strings.ReplaceAll(v, "_", " ")
	}
	return w
}

// unread returns what is wrong with the words, once the verb has read all that it knows.
func (w words) unread() error {
	for i, word := range w.plain {
		if !w.line.plain[i] {
			w.fault("unknown word %q", word)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(w.named)) {
		if !w.line.named[k] {
			w.fault("unknown word %s=", k)
		}
	}
	return errors.Join(w.line.wrong...)
}

func (w words) fault(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if w.line == nil {
		panic(err)
	}
	w.line.wrong = append(w.line.wrong, err)
}

// arg returns a plain word that the verb needs.
func (w words) arg(i int) string {
	if i >= len(w.plain) {
		w.fault("word %d is missing", i+1)
		return ""
	}
	w.reads(i)
	return w.plain[i]
}

// args returns all plain words from one on, perhaps none.
func (w words) args(from int) []string {
	for i := from; i < len(w.plain); i++ {
		w.reads(i)
	}
	return w.plain[min(from, len(w.plain)):]
}

// has reports whether a plain word is there.
func (w words) has(word string) bool {
	i := slices.Index(w.plain, word)
	if i >= 0 {
		w.reads(i)
	}
	return i >= 0
}

func (w words) reads(i int) {
	if w.line != nil {
		w.line.plain[i] = true
	}
}

// value returns what is named key.
func (w words) value(key string) (string, bool) {
	if w.line != nil {
		w.line.named[key] = true
	}
	v, ok := w.named[key]
	return v, ok
}

func (w words) text(key, otherwise string) string {
	if s, ok := w.value(key); ok {
		return s
	}
	return otherwise
}

// is reports whether key has a value: the only one that it may have.
func (w words) is(key, value string) bool {
	v, ok := w.value(key)
	if ok && v != value {
		w.fault("%s=%s: it is %s=%s or not there", key, v, key, value)
	}
	return ok
}

func (w words) number(key string, otherwise int) int { return valueOf(w, key, otherwise, strconv.Atoi) }

func (w words) float(key string) float64 {
	return valueOf(w, key, 0, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func (w words) duration(key string, otherwise time.Duration) time.Duration {
	return valueOf(w, key, otherwise, time.ParseDuration)
}

// valueOf returns the value of key, or another one where the key is not there.
func valueOf[T any](w words, key string, otherwise T, parse func(string) (T, error)) T {
	text, ok := w.value(key)
	if !ok {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		w.fault("%s: %v", key, err)
		return otherwise
	}
	return v
}

// A story in which a word has no effect would show something else than it says.
func TestAStoryHasNoWordInVain(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"submit j min=1 max=4":            "unknown word max=\nunknown word min=",
		"submit j workers=1..x":           "workers: ",
		"submit j workers=4":              "workers: ",
		"submit j eta=soon":               "eta: ",
		"submit j restarts=many":          "restarts: ",
		"submit j privs=all":              "privs=all: it is privs=none or not there",
		"submit j k":                      `unknown word "k"`,
		"submit j limit=2h limit=1h":      "limit= is given twice",
		"submit":                          "word 1 is missing",
		"stop j later":                    `unknown word "later"`,
		"cordon n1 why=repair":            "unknown word why=",
		"advance 1s 2s":                   `unknown word "2s"`,
		"pause now":                       `unknown word "now"`,
		"next lost skips=1":               "unknown word skips=",
		"want k":                          `unknown word "k"`,
		"node n2 gpus=two":                "gpus: ",
		"train j rate=20 for=10s noise=x": "noise: ",
		"users live=3 jobs=4":             "unknown word jobs=",
		"sing":                            `no verb "sing"`,
	} {
		l := newLab()
		if err := errors.Join(l.do("node n1 gpus=4"), l.do("submit j workers=1..4")); err != nil {
			t.Fatal(err)
		}
		if err := l.do(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
