package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Seen is a process as the system shows it to us.
type Seen struct {
	StartTime uint64 // as in Process
	Command   string // as the kernel calls it: the program's name, at most 15 bytes
	UID       uint32 // whom it runs as
}

// Inspect returns what the system shows of a process; false if it shows nothing
// or only what has ended. Nothing that it reads waits for the process.
func Inspect(pid int) (Seen, bool) {
	s, err := readStat(pid)
	if err != nil || !s.lives() {
		return Seen{}, false
	}
	u := proc.user(pid)
	return Seen{StartTime: s.start, Command: printable(s.comm), UID: u.uid}, u.known
}

// user reads whom a process runs as. It does not wait for the process.
func (p procfs) user(pid int) *user {
	b, err := os.ReadFile(p.file(pid, "status"))
	if err != nil {
		return &user{}
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			first, _, _ := strings.Cut(strings.TrimSpace(ids), "\t")
			uid, err := strconv.ParseUint(first, 10, 32)
			return &user{uint32(uid), err == nil}
		}
	}
	return &user{}
}

// Insiders are a run's processes that live: its shim, its workers, and what they
// have started, as far as the run's cgroup or their descent tells.
type Insiders struct {
	PIDs []int
	Err  error // why they cannot be told
}

// Inside lists them for each run in dirs. A directory that is no run, or not yet,
// has none. An error means that nothing can be told of any.
func Inside(dirs []string) ([]Insiders, error) {
	all, err := processes() // once for all runs: there may be many of both
	if err != nil {
		return nil, fmt.Errorf("look into runs: %w", err)
	}
	l := &listing{procs: all, family: familyOf(all)}
	lists := make([]Insiders, len(dirs))
	for i, dir := range dirs {
		if lists[i].PIDs, err = insideRun(dir, l); err != nil {
			lists[i] = Insiders{Err: fmt.Errorf("look into run %s: %w", dir, err)}
		}
	}
	return lists, nil
}

// insideRun finds a run's among all processes.
func insideRun(dir string, l *listing) (pids []int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	rec, err := readRecord(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	s := sweeper{dir: dir, limits: rec.Limits, shim: rec.Shim, workers: reported(dir, rec)}
	if g := openGroup(rec); g != nil {
		if _, _, err := g.look(); err != nil {
			return nil, err
		}
		s.groups = append(s.groups, g)
	}
	for _, p := range s.inside(l, nil) {
		pids = append(pids, p.pid)
	}
	return pids, nil
}
