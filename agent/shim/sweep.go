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

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// Sweep ends everything that is left of a run whose shim has died, the shim
// itself if it only seems dead, and clears away its cgroups and sockets. It
// returns nil when no process is left and the run's device locks are free; an
// error names what survives SIGKILL, what was in the way, or why that is unknown.
// It may be repeated, and takes up to run.UnkillableAfter. The directory and its last
// report stay.
//
// The files of the run are not needed for it, nor the directory: they may be
// lost, damaged, or of another version while everything lives. These traces lead
// to the processes: the cgroups of the run record and those that bear the run's
// name; the shim's command line, with all its descendants; the workers of the last
// report, with theirs; and the socket's name in the environment, which processes
// inherit. lockDir is where the locks lie of a run whose order cannot be read, and
// owner is whose it is, for one of which nothing else tells; nil = unknown.
//
// What only its environment tells of is killed last, because a process may keep a
// reader of its memory waiting; see observer.
func Sweep(dir, lockDir string, owner *cluster.Owner) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	s, faults := newSweeper(dir, lockDir)
	if s.owner == nil && owner != nil {
		s.owner = &owner.UID
	}
	// What cannot be read is killed first and complained of then.
	s.faults = faults
	if err := errors.Join(s.endAll(), faults); err != nil {
		return fmt.Errorf("sweep run %s: %w", dir, err)
	}
	for _, name := range []string{controlSocket, workerSocket} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sweep run %s: %w", dir, err)
		}
	}
	return nil
}

// RemoveGroups takes away the cgroups that bear the names of runs, by their directories. It is
// for runs of which another has ended every process, shims included, and kills
// nothing: a group that is not empty yet is an error, and stays.
func RemoveGroups(dirs ...string) error {
	l, err := observed.listing()
	if err != nil {
		return fmt.Errorf("remove the cgroups of runs: %w", err)
	}
	for _, dir := range dirs {
		path, errPath := filepath.Abs(dir)
		s := &sweeper{dir: path}
		s.addGroups(l)
		err = errors.Join(err, errPath, s.removeGroups())
	}
	return err
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
		rec, err = claimUnclaimed(dir)
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
func reported(dir string, rec runRecord) (workers []run.Process) {
	report, err := ReadReport(dir)
	if err != nil || report.Shim != rec.Shim {
		return nil
	}
	for _, w := range report.Workers {
		workers = append(workers, run.Process{PID: w.PID, StartTime: w.StartTime, BootID: rec.Shim.BootID})
	}
	return workers
}

// claimUnclaimed claims a run that has no record: a shim that was started by an
// agent's last breath, and is about to claim it, must find out that it has come too
// late. Without an order that can be read none comes so far.
func claimUnclaimed(dir string) (runRecord, error) {
	none := runRecord{Version: run.ProtocolVersion}
	err := claim(filepath.Join(dir, shimFile), none)
	if errors.Is(err, errClaimed) { // this very moment
		return readRecord(dir)
	}
	return none, err
}

type sweeper struct {
	dir, lockDir string
	order        *run.Order // nil = it cannot be read
	owner        *uint32    // of the run; nil = it is not known
	limits       []string
	shim         run.Process
	groups       []group
	scopes       []string // systemd's, by their cgroups: systemd removes them
	workers      []run.Process
	// contained: a group held all that the workers have started, so that nothing
	// depends on what processes show of themselves. Only the run record tells: a
	// group's name does not say what its kind was for, or who has made it.
	contained bool
	under     int     // all that descends from this process is the run's; 0 = there is none
	seen      *census // the last
	found     []stat  // what was last found
	faults    error   // what keeps us from knowing all that is the run's
}

// endAll kills what is left of the run until nothing is, or it gives up.
func (s *sweeper) endAll() (err error) {
	err = s.killListed()
	began := time.Now()
	end := began.Add(run.UnkillableAfter)
	repeat(func() (done bool, longest time.Duration) {
		var left []stat
		var remains remainder
		left, err = s.kill()
		if len(left) == 0 && err == nil {
			remains, err = s.rest()
			if err == nil && !remains.any() {
				if err = s.removeGroups(); !errors.Is(err, unix.EBUSY) { // a process is just leaving, or has just come
					return true, 0
				}
			}
		}
		// Each look is a census of the machine, and what is not gone at once seldom goes soon.
		if now := time.Now(); now.Before(end) {
			return false, min(max(time.Duration(lastPause), now.Sub(began)/10), end.Sub(now))
		}
		if len(left) > 0 {
			err = errors.Join(s.unkillable(left, err), err)
		} else {
			err = errors.Join(remains.describe(), err)
		}
		return true, 0
	})
	return err
}

// killListed kills what is found without looking into any process, which may keep
// a reader waiting. Of a run of which nothing is known to live there is nothing.
func (s *sweeper) killListed() error {
	if len(s.groups) == 0 && s.under == 0 && !slices.ContainsFunc(append([]run.Process{s.shim}, s.workers...), Alive) {
		return nil
	}
	l, err := observed.listing()
	if err != nil {
		return errors.Join(err, killAll(s.groups, nil))
	}
	s.addGroups(l)
	s.found = s.inside(l, nil)
	return killAll(s.groups, s.found)
}

// kill kills all that can be found, and returns it.
func (s *sweeper) kill() (left []stat, err error) {
	left, err = s.left()
	return left, errors.Join(err, killAll(s.groups, left))
}

// remainder is what keeps a run from being over although no process of it is found.
type remainder struct {
	held      []string // paths of device locks
	populated bool     // a group that shows no process is not empty
}

func (r remainder) any() bool { return r.populated || len(r.held) > 0 }

func (r remainder) describe() error {
	switch {
	case len(r.held) > 0:
		names := make([]string, len(r.held))
		for i, path := range r.held {
			names[i] = fmt.Sprintf("%s (open in %s)", path, cmp.Or(namesOf(openers(path)), "no process that is seen"))
		}
		return fmt.Errorf("a device lock is still held: %s", strings.Join(names, ", "))
	case r.populated:
		return errors.New("the cgroup is not empty, but shows no process")
	}
	return nil
}

// rest looks for what shows no process: processes that do not show whose they are,
// groups that are not empty, and once there are none of these, locks.
func (s *sweeper) rest() (r remainder, err error) {
	if !s.contained {
		err = s.hidden(nil)
	}
	for _, g := range s.groups {
		_, inside, errLook := g.look()
		r.populated, err = r.populated || inside, errors.Join(err, errLook)
	}
	if r.populated || err != nil {
		return r, err
	}
	r.held, err = s.freeLocks()
	return r, err
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
	u.KillPending = onlyKillPending(left, s.left) && s.sawAll(left, fault)
	return u
}

// sawAll reports whether nothing of the run can live but what is left: all places
// could be looked at, and no group holds anything else.
func (s *sweeper) sawAll(left []stat, fault error) bool {
	if fault != nil || s.faults != nil || !s.contained && s.hidden(left) != nil {
		return false
	}
	for _, g := range s.groups {
		pids, populated, err := g.look()
		if err != nil || populated && len(pids) == 0 {
			return false
		}
		for _, pid := range pids {
			p, err := readStat(pid)
			if err == nil && p.lives() && !slices.ContainsFunc(left, p.same) {
				return false
			}
		}
	}
	return true
}

// left finds the processes of the run that still live, wherever they have got to,
// by a census that begins after the call.
func (s *sweeper) left() ([]stat, error) {
	c, err := observed.census()
	if err != nil {
		return nil, err
	}
	s.seen = c
	s.addGroups(c.listing)
	found := merged(s.inside(c.listing, c.hosting(s.dir)), c.marked(s.dir, s.owner))
	if s.under != 0 {
		found = merged(found, c.family.descendants(map[int]bool{s.under: true}))
	}
	// One that is ending shows neither environment nor command line any more, but
	// still has its files and devices.
	for _, p := range s.found {
		if now, gone := readStat(p.pid); gone == nil && now.same(p) && now.lives() {
			found = merged(found, []stat{now})
		}
	}
	s.found = found
	return slices.Clone(found), nil
}

// inside finds those of a listing that are its shim's, its workers' or the hosts', or
// descend from these, or are in its groups or its limits'. It waits for no process.
func (s *sweeper) inside(l *listing, hosts []stat) []stat {
	roots := map[int]bool{}
	for _, p := range append([]run.Process{s.shim}, s.workers...) {
		if Alive(p) {
			roots[p.PID] = true
		}
	}
	for _, p := range hosts {
		roots[p.pid] = true
	}
	found := l.family.descendants(roots)
	for _, p := range l.procs {
		if roots[p.pid] && p.lives() {
			found = append(found, p)
		}
	}
	var pids []int
	for _, g := range s.groups {
		inside, _, _ := g.look() // whether it can be looked into is what rest asks
		pids = append(pids, inside...)
	}
	for _, top := range slices.Concat(s.limits, s.scopes) {
		pids = append(pids, members(top)...)
	}
	return merged(found, living(pids))
}
