package ranklog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestSince(t *testing.T) {
	noon := time.Now().Truncate(time.Second).Add(-time.Hour)
	path := filepath.Join(t.TempDir(), "rank-0.log")
	// write appends a line a minute, each with its mark.
	minute := 0
	size := int64(0)
	write := func(file, lines int) {
		t.Helper()
		for range lines {
			line := fmt.Sprintf("%d\n", minute)
			appendTo(t, timesOf(path, file), fmt.Sprintf("%d %d\n", noon.Add(time.Duration(minute)*time.Minute).UnixMilli(), size))
			appendTo(t, path, line)
			size += int64(len(line))
			minute++
		}
		if err := os.Chtimes(path, time.Time{}, noon.Add(time.Duration(minute-1)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	since := func(m float64) []string {
		t.Helper()
		start, err := SinceStart(path, noon.Add(time.Duration(m*float64(time.Minute))))
		if err != nil {
			t.Fatal(err)
		}
		l := NewReader(path, start)
		defer l.Close()
		got := []string{}
		if err = l.Poll(func(x Text) error { got = append(got, x.Line+x.Gap); return nil }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := since(1); len(got) != 0 {
		t.Errorf("of no log: %q", got)
	}
	write(1, 3)
	rotate(t, path, 1)
	size = 0
	if got := since(1.5); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("between the two steps of a rotation: %q", got)
	}
	write(2, 3)
	for m, want := range map[float64][]string{
		-5: {"0", "1", "2", "3", "4", "5"}, 1.5: {"1", "2", "3", "4", "5"}, 3.5: {"3", "4", "5"}, 4.5: {"4", "5"}, 5: {"4", "5"}, 6: {},
	} {
		if got := since(m); !slices.Equal(got, want) {
			t.Errorf("since minute %g: %q, want %q", m, got, want)
		}
	}
	if err := os.Remove(timesOf(path, 2)); err != nil { // then it is later than the last that is known of the file before
		t.Fatal(err)
	}
	if got := since(4.5); !slices.Equal(got, []string{"3", "4", "5"}) {
		t.Errorf("without times: %q", got)
	}
}
