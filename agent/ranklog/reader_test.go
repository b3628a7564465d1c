package ranklog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// rotate does with a log what a shim does: number is that of the file that is full.
func rotate(t *testing.T, path string, number int) {
	t.Helper()
	if err := os.Rename(path, numbered(path, number)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(numbered(path, number-1)); err != nil && number > 1 {
		t.Fatal(err)
	}
}

// reading is a rankLog and what it told last.
type reading struct {
	*Reader
	t     *testing.T
	after Position // the last line
}

func readLog(t *testing.T, path string, after Position) *reading {
	t.Helper()
	r := &reading{NewReader(path, after), t, after}
	t.Cleanup(r.Close)
	return r
}

func (r *reading) expect(want ...string) {
	r.t.Helper()
	var got []string
	if err := r.Poll(func(l Text) error {
		if l.Gap == "" {
			r.after = l.After
		}
		got = append(got, l.Line+l.Gap)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, func(g, w string) bool { return g == w || len(w) > 5 && strings.HasPrefix(g, w) }) {
		r.t.Fatalf("got %q, want %q", got, want)
	}
}

func TestRankLogAcrossRotations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank-0.log")
	l := readLog(t, path, Position{})
	l.expect()
	appendTo(t, path, "1\n")
	rotate(t, path, 1)
	appendTo(t, path, "2\n")
	l.expect("1", "2") // one that was rotated before anybody looked
	rotate(t, path, 2)
	l.expect() // between the two steps of a rotation
	appendTo(t, path, "3\n")
	l.expect("3")
	appendTo(t, path, "4\n")
	rotate(t, path, 3)
	appendTo(t, path, "5\n")
	rotate(t, path, 4)
	appendTo(t, path, "6\n")
	l.expect("4", "5", "6") // twice between two looks: the old file is still open
	appendTo(t, path, "7\n")
	rotate(t, path, 5)
	appendTo(t, path, "8\n")
	rotate(t, path, 6)
	appendTo(t, path, "9\n")
	rotate(t, path, 7)
	appendTo(t, path, "10\n")
	l.expect("7", "lines are missing here", "9", "10") // thrice: what was in between is gone, and that is said
	appendTo(t, path, "long\n")
	l.expect("long")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, "7\r\n")
	l.expect("lines may be missing here", "7")
}

// Another reading goes on after the last line of the one before, wherever that line is by now.
func TestRankLogGoesOnAfterAPosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank-0.log")
	appendTo(t, path, "1\n2\nha")
	l := readLog(t, path, Position{})
	l.expect("1", "2")
	appendTo(t, path, "lf\n3\n")
	rotate(t, path, 1)
	readLog(t, path, l.after).expect("half", "3")
	appendTo(t, path, "4\n")
	second := readLog(t, path, l.after)
	second.expect("half", "3", "4")
	rotate(t, path, 2)
	readLog(t, path, second.after).expect()
	appendTo(t, path, "5\n")
	readLog(t, path, second.after).expect("5")
	readLog(t, path, l.after).expect("lines are missing here", "4", "5")
	readLog(t, path, Position{}).expect("what it wrote before this is not kept", "4", "5")
	readLog(t, path, Position{File: 9, Offset: 99}).expect("lines may be missing here", "5") // a position of other logs
}

func TestTailOfARankLog(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine/2)
	for _, c := range []struct {
		files []string // the last one is being written
		lines int
		want  []string
	}{
		{[]string{"a\nb\nc\n"}, 2, []string{"b", "c"}},
		{[]string{"a\nb\nc\n"}, 3, []string{"a", "b", "c"}},
		{[]string{"a\nb\nc\n"}, 9, []string{"a", "b", "c"}},
		{[]string{"a\nb\nc\n"}, 0, nil},
		{[]string{"a\nb\nun"}, 1, nil},
		{[]string{"a\nb\nun"}, 2, []string{"b"}},
		{[]string{"a\nb\n", "c\nd\n"}, 3, []string{"b", "c", "d"}},
		{[]string{"a\nb\n", "c\nd\n"}, 2, []string{"c", "d"}},
		{[]string{"a\nb\n", ""}, 1, []string{"b"}},
		{[]string{"a\nb\n"}, 1, []string{"b"}},
		{[]string{"a\nb\n", "c\n" + long + "\nd\n"}, 2, []string{long[:maxLine] + cutMark, "d"}},
		{[]string{"a\n" + long + "\n\n", "c\n"}, 3, []string{long[:maxLine] + cutMark, "", "c"}},
		{nil, 3, nil},
	} {
		path := filepath.Join(t.TempDir(), "rank-0.log")
		for i, text := range c.files {
			if appendTo(t, path, text); i < len(c.files)-1 {
				rotate(t, path, i+1)
			}
		}
		start, err := TailStart(path, c.lines)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err = NewReader(path, start).Poll(func(l Text) error { got = append(got, l.Line+l.Gap); return nil }); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("the last %d of %.40q: from %+v %.60q, want %.60q, %v", c.lines, c.files, start, got, c.want, err)
		}
	}
	// Between the two steps of a rotation the newest file is a numbered one.
	path := filepath.Join(t.TempDir(), "rank-0.log")
	appendTo(t, path, "a\nb\n")
	rotate(t, path, 1)
	if start, err := TailStart(path, 1); err != nil || start != (Position{1, 2}) {
		t.Errorf("%+v, %v", start, err)
	}
}

func TestRankLogCutsLinesAndMendsText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rank-0.log")
	appendTo(t, path, strings.Repeat("x", maxLine+10)+"\nbroken \xff\nlast")
	l := NewReader(path, Position{})
	defer l.Close()
	var got []string
	emit := func(s Text) error { got = append(got, fmt.Sprintf("%d:%s", s.After.Offset, s.Line)); return nil }
	if err := l.Poll(emit); err != nil {
		t.Fatal(err)
	}
	if err := l.Finish(emit); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("%d:%s", maxLine+11, strings.Repeat("x", maxLine)+cutMark), fmt.Sprintf("%d:broken \ufffd", maxLine+20), fmt.Sprintf("%d:last", maxLine+24)}
	if !slices.Equal(got, want) {
		t.Errorf("%d lines: %.40q…", len(got), got)
	}
}

func TestRankLogFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	appendTo(t, secret, "secret\n")
	path := filepath.Join(dir, "rank-0.log")
	if err := os.Symlink(secret, path); err != nil {
		t.Fatal(err)
	}
	l := NewReader(path, Position{})
	defer l.Close()
	if err := l.Poll(func(s Text) error { t.Errorf("read %q", s.Line); return nil }); err == nil {
		t.Error("a link in place of a log was read")
	}
}
