package shim

import (
	"errors"
	"os"
	"slices"
	"time"
)

// killAll sends SIGKILL once to all that the groups hold and to each of the
// processes. It waits for none of them to end. Every kill of a run uses it,
// and repeats it until nothing is left, since what forks at that moment may be
// missed where there is no cgroup.
func killAll(groups []group, found []stat) error {
	var err error
	for _, g := range groups {
		err = errors.Join(err, g.kill())
	}
	for _, p := range found {
		err = errors.Join(err, p.kill())
	}
	return err
}

// repeat calls once until it is done. It pauses in between, for firstPause and then
// longer, but never longer than what once returns: children's ends are signalled,
// other processes' are not.
func repeat(once func() (done bool, longest time.Duration)) {
	for pause := time.Duration(firstPause); ; pause *= 2 {
		done, longest := once()
		if done {
			return
		}
		pause = min(pause, longest)
		time.Sleep(pause)
	}
}

// living are those of the pids whose processes live, without this one.
func living(pids []int) []stat {
	var found []stat
	for _, pid := range pids {
		if p, err := readStat(pid); err == nil && p.lives() && pid != os.Getpid() {
			found = append(found, p)
		}
	}
	return found
}

// merged puts two lists of processes into one, by pid.
func merged(found, more []stat) []stat {
	known := make(map[int]bool, len(found))
	for _, p := range found {
		known[p.pid] = true
	}
	for _, p := range more {
		if !known[p.pid] {
			known[p.pid] = true
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b stat) int { return a.pid - b.pid })
	return found
}
