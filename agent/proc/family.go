package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Children lists the children of this process. It may miss one while another ends. An
// error says that this kernel does not tell (CONFIG_PROC_CHILDREN).
func Children() (pids []int, err error) {
	lists, _ := filepath.Glob(string(Root) + "/self/task/*/children") // the pattern is right
	read := 0
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended: its children are another's
		}
		read++
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if read == 0 {
		return nil, errors.New("list children: the kernel does not tell")
	}
	return pids, nil
}

// Family knows the children of each process in a list.
type Family map[int][]Stat

// FamilyOf knows the children of each process in a list of all.
func FamilyOf(all []Stat) Family {
	f := make(Family, len(all))
	for _, s := range all {
		f[s.PPID] = append(f[s.PPID], s)
	}
	return f
}

// Descendants returns the living processes whose ancestor is one of the roots, the roots excluded.
func (f Family) Descendants(roots map[int]bool) []Stat {
	var found []Stat
	seen := map[int]bool{}
	var walk func(pid int)
	walk = func(pid int) {
		for _, c := range f[pid] {
			if seen[c.PID] {
				continue
			}
			seen[c.PID] = true
			if c.Lives() && !roots[c.PID] {
				found = append(found, c)
			}
			walk(c.PID)
		}
	}
	for pid := range roots {
		walk(pid)
	}
	return found
}

// Lineage returns a process and its ancestors, without init.
func Lineage(pid int) []int {
	const maxDepth = 64 // processes that nest deeper are not a worker's
	pids := []int{pid}
	for len(pids) < maxDepth {
		s, err := ReadStat(pid)
		if err != nil || s.PPID <= 1 {
			break
		}
		pid = s.PPID
		pids = append(pids, pid)
	}
	return pids
}

// Living are those of the pids whose processes live, without this one.
func Living(pids []int) []Stat {
	var found []Stat
	for _, pid := range pids {
		if p, err := ReadStat(pid); err == nil && p.Lives() && pid != os.Getpid() {
			found = append(found, p)
		}
	}
	return found
}

// Merged puts two lists of processes into one, by pid.
func Merged(found, more []Stat) []Stat {
	known := make(map[int]bool, len(found))
	for _, p := range found {
		known[p.PID] = true
	}
	for _, p := range more {
		if !known[p.PID] {
			known[p.PID] = true
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Stat) int { return a.PID - b.PID })
	return found
}

// Names are the processes in one line, for people.
func Names(all []Stat) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

// Tree is a process, and what it has started.
func Tree(pid int) []int {
	pids := []int{pid}
	if all, err := All(); err == nil {
		for _, p := range FamilyOf(all).Descendants(map[int]bool{pid: true}) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// HasChildren reports whether this process has any child, living or waiting to be reaped.
func HasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}
