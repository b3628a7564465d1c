package verify

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A world has ended when nothing of it lives: what a worker has left is killed with its group, and holds its files,
// locks, ports and device until it is gone. The next world would find them taken.

// leftPause is the time between two looks at what was killed.
const leftPause = 2 * time.Millisecond

// endGroup kills what a worker that has ended has left in its group, and waits until it is gone. The error names what
// does not end within killedWithin.
func endGroup(group int) error {
	return untilGone(func() error { return syscall.Kill(-group, syscall.SIGKILL) }, func() []string { return living(group) })
}

// untilGone kills a group until nothing of it lives.
func untilGone(kill func() error, living func() []string) error {
	end := time.Now().Add(killedWithin)
	for !errors.Is(kill(), syscall.ESRCH) { // nearly always it is empty
		alive := living()
		switch {
		case len(alive) == 0:
			return nil // zombies, which are another's to wait for
		case time.Now().After(end):
			return fmt.Errorf("%s after it was killed, what it has left lives: %s", killedWithin, strings.Join(alive, ", "))
		}
		time.Sleep(leftPause)
	}
	return nil
}

// living names the processes of a group that have not ended.
func living(group int) (alive []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		if name, its, lives := parseStat(stat); lives && its == group {
			alive = append(alive, fmt.Sprintf("process %s (%s)", filepath.Base(filepath.Dir(path)), name))
		}
	}
	return alive
}

// parseStat returns of /proc/<pid>/stat what a process is called, its group, and whether it has not ended.
func parseStat(stat []byte) (name string, group int, lives bool) {
	first, last := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if first < 0 || last < first {
		return "", 0, false
	}
	f := strings.Fields(string(stat[last+1:])) // state, parent, group; the 18th is the number of threads
	if len(f) < 18 {
		return "", 0, false
	}
	group, err := strconv.Atoi(f[2])
	// One of which only the first thread has ended is shown as a zombie too.
	return string(stat[first+1 : last]), group, err == nil && f[0] != "X" && (f[0] != "Z" || f[17] != "1")
}
