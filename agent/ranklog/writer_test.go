package ranklog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The times of a log name beginnings of its lines, and go with the files that they are of.
func TestTimesOfALog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "logs", "rank-0.log")
	l := NewWriter(path, 4000)
	l.Add([]byte(strings.Repeat("0123456\n", 10) + "begun, "))
	l.marks.last = l.marks.last.Add(-2 * markAtLeast)
	l.Add([]byte("ended\n")) // in the middle of a line nothing is marked
	l.Add([]byte("soon\n"))
	l.marks.last = l.marks.last.Add(-2 * markAtLeast)
	l.Add([]byte("late\n"))
	l.Add([]byte("later\n"))
	text, err := os.ReadFile(timesOf(path, 1))
	var ms [3]int64
	var at [3]int64
	n, scanErr := fmt.Sscan(string(text), &ms[0], &at[0], &ms[1], &at[1], &ms[2], &at[2])
	if err != nil || n != 6 || at != [3]int64{0, 80 + 13, 80 + 18} || time.Since(time.UnixMilli(ms[1])) > time.Minute {
		t.Errorf("times %q, %v, %v", text, err, scanErr)
	}
	for range 1000 {
		l.Add([]byte("0123456\n"))
	}
	l.Close()
	times, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.times.*"))
	logs, err2 := filepath.Glob(path + "*")
	if err != nil || err2 != nil || len(times) != 2 || len(logs) != 2 {
		t.Errorf("times %q of %q", times, logs)
	}
}
