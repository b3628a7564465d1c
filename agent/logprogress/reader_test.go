package logprogress

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// words feeds text in pieces, and returns the steps that were told, in order.
func words(t *testing.T, r *Reader, pieces ...string) (all []Word) {
	t.Helper()
	for _, p := range pieces {
		if w, ok := r.Add([]byte(p), 0); ok {
			all = append(all, w)
		}
	}
	if w, ok := r.End(0); ok {
		all = append(all, w)
	}
	return all
}

func reader(t *testing.T, text string, start Start) *Reader {
	t.Helper()
	r, err := NewReader(text, start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func steps(all []Word) string {
	var s []string
	for _, w := range all {
		text := fmt.Sprint(w.Step)
		if w.Loss != nil {
			text += fmt.Sprintf(":%g", *w.Loss)
		}
		if w.BadLoss {
			text += ":bad"
		}
		if w.Samples >= 0 {
			text += fmt.Sprintf("/%d", w.Samples)
		}
		s = append(s, text)
	}
	return strings.Join(s, " ")
}

func TestPatterns(t *testing.T) {
	const full = `step (?P<step>[\d,._e+-]+)(?: loss (?P<loss>\S+))?(?: seen (?P<samples>\d+))?`
	for _, c := range []struct {
		name, pattern string
		start         Start
		pieces        []string
		want, problem string
	}{
		{"lines", `step (\d+)`, Start{}, []string{"epoch 1\nstep 1\n", "step 2\n", "done\n"}, "1 2", ""},
		{"pieces of lines", `step (\d+)`, Start{}, []string{"st", "ep 1", "2\nstep 13", "\n"}, "12 13", ""},
		{"a last line without an end", `step (\d+)`, Start{}, []string{"step 1\nstep 2"}, "1 2", ""},
		{"CRLF", `^step (\d+)$`, Start{}, []string{"step 1\r\n", "step 2\r\n"}, "1 2", ""},
		{"a bar drawn over and over", `^\s*(\d+)/9`, Start{}, []string{"\r 1/9", "\r 2/9", "\r 3/9\n"}, "1 2 3", ""},
		{"colours", `^step (\d+)$`, Start{}, []string{"\x1b[1;32mstep\x1b[0m 7\n"}, "7", ""},
		{"loss and samples", full, Start{}, []string{"step 1 loss 0.5 seen 64\n", "step 2 loss 1e-3\n"}, "1:0.5/64 2:0.001", ""},
		{"a loss that is no number", full, Start{}, []string{"step 1 loss nan\n", "step 2 loss inf\n", "step 3 loss x\n", "step 4 loss 1e999\n"}, "1:bad 2:bad 3 4:bad", ""},
		{"thousands, floats", full, Start{}, []string{"step 1,200\n", "step 1_300\n", "step 1400.0\n", "step 1.5e3\n"}, "1200 1300 1400 1500", ""},
		{"beyond what can be", full, Start{}, []string{"step 99999999999999999999\n", "step 1e40\n", "step 9007199254740993\n"}, "", `step matched "9007199254740993", which is no whole number`},
		{"no number", `step (\w+)`, Start{}, []string{"step one\n"}, "", `'step (\w+)': its step matched "one", which is no whole number`},
		{"said again", full, Start{}, []string{"step 3\n", "step 3\n", "step 3 loss 2\n", "step 3 loss 1\n"}, "3 3:2", ""},
		{"loss on a line of its own", `step (?P<step>\d+)|loss (?P<loss>\S+)`, Start{}, []string{"loss 2\nstep 1\n", "loss 1\n", "step 2\n"}, "1:2 2:1", ""},
		{"a step that goes back", `step (\d+)`, Start{}, []string{"step 499\n", "step 0\n", "step 1\n", "step 500\n"}, "499 500", "the step went back from 499 to 0, which is not counted"},
		{"resumed, and goes on", `step (\d+)`, Start{Step: 100, Samples: 6400}, []string{"step 101\n", "step 102\n"}, "101 102", ""},
		{"resumed, and counts anew", full, Start{Step: 100, Samples: 6400}, []string{"step 0\n", "step 1 seen 64\n"}, "100 101/6464", "it resumed from step 100 and its lines count from the beginning"},
		{"resumed, and falls behind", `step (\d+)`, Start{Step: 100}, []string{"step 101\n", "step 3\n", "step 102\n"}, "101 102", "the step went back from 101 to 3"},
		{"nothing is done yet", full, Start{}, []string{"step 0 seen 0\n", "step 0 seen 0\n"}, "0/0", ""},
		{"resumed from a step before its own", `step (\d+)`, Start{Step: 100}, []string{"step 90\n", "step 100\n"}, "90 100", ""},
		{"of a script that takes no notice", `step (\d+)`, Start{}, []string{strings.Repeat("hello\n", patience-1)}, "", ""},
		{"of a script that takes no notice for long", `step (\d+)`, Start{}, []string{strings.Repeat("hello\n", patience)}, "", `--progress 'step (\d+)': none of the first 100 lines matches`},
		{"bytes of any kind", `step (\d+)`, Start{}, []string{"\xff\xfe\x00step 5\x00\n"}, "5", ""},
		{"a long line", `step (\d+)`, Start{}, []string{strings.Repeat("x", maxLine-6) + "step 5\n" + strings.Repeat("x", maxLine-5) + "step 7\n"}, "5", ""},
		{"a line without end", `step (\d+)`, Start{}, []string{strings.Repeat("x", 1<<20) + "step 5\nstep 6\n"}, "6", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reader(t, c.pattern, c.start)
			if got := steps(words(t, r, c.pieces...)); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
			if got := r.Problem(); got == "" != (c.problem == "") || !strings.Contains(got, c.problem) {
				t.Errorf("problem %q, want …%s…", got, c.problem)
			}
		})
	}
}

// A script that prints little is told of a pattern that matches nothing before it has printed 100 lines.
func TestAPatternOfASlowScript(t *testing.T) {
	for _, c := range []struct {
		lines int
		at    time.Duration
		told  bool
	}{{few, slow, true}, {few - 1, slow, false}, {few, slow - 1, false}} {
		r := reader(t, `step (\d+)`, Start{})
		r.Add([]byte(strings.Repeat("hello\n", c.lines)), c.at)
		if got := r.Problem(); strings.Contains(got, "none of the first 10 lines matches") != c.told {
			t.Errorf("%d lines in %v: problem %q", c.lines, c.at, got)
		}
	}
}

// However the stream is cut into reads, the last word is the same, and no word goes back.
func TestCutsChangeNothing(t *testing.T) {
	text := "start\r\n 1% step 1\r 2% step 2\rstep 30 \x1b[Kloss\nnoise step\nstep 31\r\n\rstep 32"
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := reader(t, `step (\d+)`, Start{})
		last, rest := int64(0), text
		for rest != "" {
			n := 1 + random.IntN(len(rest))
			if w, ok := r.Add([]byte(rest[:n]), 0); ok {
				if w.Step < last {
					t.Fatalf("seed %d: step %d after %d", seed, w.Step, last)
				}
				last = w.Step
			}
			rest = rest[n:]
		}
		if w, ok := r.End(0); ok {
			last = w.Step
		}
		if last != 32 {
			t.Fatalf("seed %d: ended at step %d", seed, last)
		}
	}
}

// Only so many lines a second are looked at; later ones are again.
func TestAFloodOfLinesIsSkipped(t *testing.T) {
	r := reader(t, `step (\d+)`, Start{})
	w, ok := r.Add([]byte(strings.Repeat("noise\n", burst)+"step 7\n"), 0)
	if ok || r.looked != burst {
		t.Errorf("step %d after %d lines", w.Step, r.looked)
	}
	if w, ok := r.Add([]byte("step 8\n"), time.Second); !ok || w.Step != 8 {
		t.Errorf("told %+v", w)
	}
}

// What takes other engines exponential time is read like anything else.
func TestNoPatternIsCatastrophic(t *testing.T) {
	r := reader(t, `^(?:(?:a+)+)+step (\d+)$`, Start{})
	if got := steps(words(t, r, strings.Repeat("a", maxLine-10)+"!\n", "aastep 3\n")); got != "3" {
		t.Errorf("told %q", got)
	}
}
