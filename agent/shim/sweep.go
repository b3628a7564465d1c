package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep ends everything that is left of a run whose shim has died, the shim
// itself if it only seems dead, and clears away its cgroups and sockets. It
// returns nil when no process is left and the run's device locks are free; an
// error names what survives SIGKILL, what was in the way, or why nobody can tell.
// It may be repeated, and takes up to UnkillableAfter. The directory and its last
// report stay.
//
// The files of the run are not needed for it, nor the directory: they may be
// lost, damaged, or of another version while everything lives. These traces lead
// to the processes: the cgroups of the run record and those that bear the run's
// name; the shim's command line, with all its descendants; the workers of the last
// report, with theirs; and the socket's name in the environment, which processes
// inherit. lockDir is where the locks lie of a run whose order cannot be read.
func Sweep(dir, lockDir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	s, faults := newSweeper(dir, lockDir)
	// What cannot be read is killed first and complained of then.
	s.faults = faults
	if err := errors.Join(s.killAll(), faults); err != nil {
		return fmt.Errorf("sweep run %s: %w", dir, err)
	}
	for _, name := range []string{controlSocket, workerSocket} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sweep run %s: %w", dir, err)
		}
	}
	return nil
}

// newSweeper learns of the run what its directory still tells. The error is one
// that keeps the run from being over, whatever is killed.
func newSweeper(dir, lockDir string) (*sweeper, error) {
	s := &sweeper{dir: dir, lockDir: lockDir}
	if order, err := readOrder(dir); err == nil {
		s.order = &order
	}
	rec, err := readRecord(dir)
	s.owner = ownerOf(dir, rec)
	if s.order != nil && errors.Is(err, os.ErrNotExist) {
		rec, err = claimForNobody(dir)
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, errUnreadable): // the other traces have to do
		if report, errRead := ReadReport(dir); errRead == nil {
			s.shim, s.workers = report.Shim, reported(dir, runRecord{Shim: report.Shim})
		}
		return s, nil
	case err != nil:
		return s, err
	}
	s.limits, s.shim, s.workers = rec.Limits, rec.Shim, reported(dir, rec)
	if g := openGroup(rec); g != nil && rec.Shim.BootID == bootID() {
		s.groups, s.contained = append(s.groups, g), true
		return s, onCgroupfs(rec.Cgroup)
	}
	return s, nil
}

// reported are the workers in the last report of the run's shim.
func reported(dir string, rec runRecord) (workers []Process) {
	report, err := ReadReport(dir)
	if err != nil || report.Shim != rec.Shim {
		return nil
	}
	for _, w := range report.Workers {
		workers = append(workers, Process{PID: w.PID, StartTime: w.StartTime, BootID: rec.Shim.BootID})
	}
	return workers
}

// claimForNobody claims a run that has no record: a shim that was started by an
// agent's last breath, and is about to claim it, must find out that it has come too
// late. Without an order that can be read none comes so far.
func claimForNobody(dir string) (runRecord, error) {
	nobody := runRecord{Version: ProtocolVersion}
	err := claim(filepath.Join(dir, shimFile), nobody)
	if errors.Is(err, errClaimed) { // this very moment
		return readRecord(dir)
	}
	return nobody, err
}

type sweeper struct {
	dir, lockDir string
	order        *Order  // nil = it cannot be read
	owner        *uint32 // of the run; nil = it is not known
	limits       []string
	shim         Process
	groups       []group
	scopes       []string // systemd's, by their cgroups: systemd removes them
	workers      []Process
	// contained: a group held all that the workers have started, so that nothing
	// depends on what processes show of themselves. Only the run record tells: a
	// group's name does not say what its kind was for, or who has made it.
	contained bool
	under     int    // all that descends from this process is the run's; 0 = there is none
	found     []stat // what was last found
	faults    error  // what keeps us from knowing all that is the run's
}

func (s *sweeper) killAll() error {
	pause := time.Duration(firstPause)
	for end := time.Now().Add(UnkillableAfter); ; {
		s.findGroups()
		left, err := s.left()
		for _, g := range s.groups {
			err = errors.Join(err, g.kill())
		}
		for _, p := range left {
			err = errors.Join(err, p.kill())
		}
		var held []string
		populated := false
		if len(left) == 0 && err == nil {
			held, populated, err = s.rest()
			if err == nil && len(held) == 0 && !populated {
				if err = s.removeGroups(); !errors.Is(err, unix.EBUSY) { // somebody is just leaving, or has just come
					return err
				}
			}
		}
		if time.Now().After(end) {
			if len(left) > 0 {
				return errors.Join(s.unkillable(left, err), err)
			}
			return errors.Join(describeLeft(held, populated), err)
		}
		time.Sleep(pause) // nothing tells when somebody else's processes are gone
		pause = min(2*pause, time.Duration(lastPause))
	}
}

// rest looks for what shows no process: groups that are not empty, processes that do
// not show whose they are, and once there are none of these locks.
func (s *sweeper) rest() (held []string, populated bool, err error) {
	if !s.contained {
		err = s.veiled()
	}
	for _, g := range s.groups {
		_, inside, errLook := g.look()
		populated, err = populated || inside, errors.Join(err, errLook)
	}
	if populated || err != nil {
		return nil, populated, err
	}
	held, err = s.freeLocks()
	return held, false, err
}

// freeLocks gives the locks back once nothing is left of the run. One that is held
// all the same is cleared away if that is sure, or if it is not a worker's.
func (s *sweeper) freeLocks() (held []string, err error) {
	var l lockFiles
	if s.order != nil {
		l = locksOf(*s.order, s.dir)
	} else if l, err = allLocks(s.lockDir, s.dir); err != nil {
		return nil, err
	}
	if held, err = l.giveBack(); len(held) == 0 || err != nil {
		return held, err
	}
	if err = l.clear(s.contained); err != nil {
		return held, err
	}
	return l.giveBack()
}

func (s *sweeper) removeGroups() error {
	err := removeTops(s.limits)
	for _, g := range s.groups {
		err = errors.Join(err, g.remove())
	}
	return err
}

// unkillable names what is left. fault is one in the way of finding all of it.
func (s *sweeper) unkillable(left []stat, fault error) error {
	u := &Unkillable{names: namesOf(left)}
	for _, p := range left {
		u.PIDs = append(u.PIDs, p.pid)
	}
	u.Doomed = doomed(left, s.left) && s.sawAll(left, fault)
	return u
}

// sawAll reports whether nothing of the run can live but what is left: all places
// could be looked at, and no group holds anything else.
func (s *sweeper) sawAll(left []stat, fault error) bool {
	if fault != nil || s.faults != nil || !s.contained && s.veiled() != nil {
		return false
	}
	for _, g := range s.groups {
		pids, populated, err := g.look()
		if err != nil || populated && len(pids) == 0 {
			return false
		}
		for _, pid := range pids {
			p, err := readStat(pid)
			if err == nil && p.lives() && !slices.ContainsFunc(left, func(l stat) bool { return l.pid == pid && l.start == p.start }) {
				return false
			}
		}
	}
	return true
}

func describeLeft(held []string, populated bool) error {
	switch {
	case len(held) > 0:
		for i, path := range held {
			held[i] = fmt.Sprintf("%s (open in %s)", path, cmp.Or(namesOf(openers(path)), "no process that is seen"))
		}
		return fmt.Errorf("a device lock is still held: %s", strings.Join(held, ", "))
	case populated:
		return errors.New("the cgroup is not empty, but shows no process")
	}
	return nil
}

// left finds the processes of the run that still live, wherever they have got to.
func (s *sweeper) left() ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	more, err := marked(s.dir, s.owner)
	found := merged(s.inside(all, hosting(s.dir, all)), more)
	if s.under != 0 {
		found = merged(found, descendants(all, map[int]bool{s.under: true}))
	}
	// One that is ending shows neither environment nor command line any more, but
	// still has its files and devices.
	for _, p := range s.found {
		if now, gone := readStat(p.pid); gone == nil && now.start == p.start && now.lives() {
			found = merged(found, []stat{now})
		}
	}
	s.found = found
	return slices.Clone(found), err
}

// inside finds those that are its shim's, its workers' or the hosts', or descend
// from these, or are in its groups or its limits', of all processes.
func (s *sweeper) inside(all, hosts []stat) []stat {
	roots := map[int]bool{}
	for _, p := range append([]Process{s.shim}, s.workers...) {
		if Alive(p) {
			roots[p.PID] = true
		}
	}
	for _, p := range hosts {
		roots[p.pid] = true
	}
	found := descendants(all, roots)
	for _, p := range all {
		if roots[p.pid] && p.lives() {
			found = append(found, p)
		}
	}
	var pids []int
	for _, g := range s.groups {
		inside, _, _ := g.look() // whether it can be looked into is killAll's question
		pids = append(pids, inside...)
	}
	for _, top := range slices.Concat(s.limits, s.scopes) {
		pids = append(pids, members(top)...)
	}
	var grouped []stat
	for _, pid := range pids {
		if p, err := readStat(pid); err == nil && p.lives() && pid != os.Getpid() {
			grouped = append(grouped, p)
		}
	}
	return merged(found, grouped)
}

// merged puts two lists of processes into one, by pid.
func merged(found, more []stat) []stat {
	for _, p := range more {
		if !slices.ContainsFunc(found, func(o stat) bool { return o.pid == p.pid }) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b stat) int { return a.pid - b.pid })
	return found
}
