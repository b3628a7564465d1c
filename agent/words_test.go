package agent_test

import (
	"slices"
	"strings"
	"testing"
)

// words are a line of a story: what happens, and to what. An event has to read all of
// its words: one that it does not read would change nothing, and the story would show
// something else than it says.
type words struct {
	text []string
	read map[int]bool
}

func split(line string) words { return words{strings.Fields(line), map[int]bool{}} }

// at returns one word, which has to be there.
func (w words) at(i int) string {
	w.read[i] = true
	return w.text[i]
}

// from returns all words from one on, perhaps none.
func (w words) from(i int) []string {
	for k := i; k < len(w.text); k++ {
		w.read[k] = true
	}
	return w.text[min(i, len(w.text)):]
}

// has reports whether a word is there.
func (w words) has(word string) bool {
	i := slices.Index(w.text, word)
	if i > 0 {
		w.read[i] = true
	}
	return i > 0
}

// value returns what is named key, as in step=7.
func (w words) value(key string) (value string, ok bool) {
	for i, word := range w.text {
		if value, ok = strings.CutPrefix(word, key+"="); ok {
			w.read[i] = true
			return value, true
		}
	}
	return "", false
}

// unread returns the first word that the event has not read, or "".
func (w words) unread() string {
	for i := range w.text {
		if !w.read[i] {
			return w.text[i]
		}
	}
	return ""
}

// A story in which a word has no effect would show something else than it says.
func TestAStoryHasNoWordInVain(t *testing.T) {
	for _, c := range []struct{ line, unread string }{
		{"pass 10s 5s", "5s"},
		{"restart now", "now"},
		{"halt j/1 save stop_afer=8", "stop_afer=8"},
		{"halt j/1 save terminates", "terminates"},
		{"collect j/1 n2", "n2"},
		{"peer j/1 n1 stopped at=8", "at=8"},
		{"left j/1 60 sample=480", "sample=480"},
		{"told j/1 64 640 32", "32"},
		{"exit j/1 0 1", "1"},
		{"hang j/1 10s", "10s"},
		{"damaged j/1 step=8", "step=8"},
	} {
		s := newStage()
		for _, line := range []string{"plan j/1 n1*1", "pass 10s"} {
			if w := split(line); !s.happens(w) || w.unread() != "" {
				t.Fatalf("%s: %q", line, w.unread())
			}
			s.net.Tick()
		}
		w := split(c.line)
		if !s.happens(w) || w.unread() != c.unread {
			t.Errorf("%s: %q is unread, want %q", c.line, w.unread(), c.unread)
		}
	}
}
