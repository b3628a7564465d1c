package sweep

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

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
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
	for _, name := range []string{rundir.ControlSocket, run.WorkerSocket} {
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
	if order, err := rundir.ReadOrder(dir); err == nil {
		s.order = &order
	}
	rec, err := rundir.ReadRecord(dir)
	s.owner = rundir.OwnerOf(dir, rec)
	if s.order != nil && errors.Is(err, os.ErrNotExist) {
		rec, err = rundir.ClaimUnclaimed(dir)
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, rundir.ErrUnreadable): // the other traces have to do
		if report, errRead := rundir.ReadReport(dir); errRead == nil {
			s.shim, s.workers = report.Shim, rundir.Reported(dir, rundir.Record{Shim: report.Shim})
		}
		return s, nil
	case err != nil:
		return s, err
	}
	s.limits, s.shim, s.workers = rec.Limits, rec.Shim, rundir.Reported(dir, rec)
	if g := contain.Open(rec.Containment, rec.Cgroup); g != nil && rec.Shim.BootID == proc.BootID() {
		s.groups, s.contained = append(s.groups, g), true
		return s, onCgroupfs(rec.Cgroup)
	}
	return s, nil
}

type sweeper struct {
	dir, lockDir string
	order        *run.Order // nil = it cannot be read
	owner        *uint32    // of the run; nil = it is not known
	limits       []string
	shim         run.Process
	groups       []contain.Group
	scopes       []string // systemd's, by their cgroups: systemd removes them
	workers      []run.Process
	// contained: a group held all that the workers have started, so that nothing
	// depends on what processes show of themselves. Only the run record tells: a
	// group's name does not say what its kind was for, or who has made it.
	contained bool
	under     int         // all that descends from this process is the run's; 0 = there is none
	seen      *census     // the last
	found     []proc.Stat // what was last found
	faults    error       // what keeps us from knowing all that is the run's
}

// endAll kills what is left of the run until nothing is, or it gives up.
func (s *sweeper) endAll() (err error) {
	err = s.killListed()
	began := time.Now()
	end := began.Add(run.UnkillableAfter)
	repeat(func() (done bool, longest time.Duration) {
		var left []proc.Stat
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
			return false, min(max(proc.LastPause, now.Sub(began)/10), end.Sub(now))
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
	if len(s.groups) == 0 && s.under == 0 && !slices.ContainsFunc(append([]run.Process{s.shim}, s.workers...), proc.Alive) {
		return nil
	}
	l, err := observed.listing()
	if err != nil {
		return errors.Join(err, contain.KillAll(s.groups, nil))
	}
	s.addGroups(l)
	s.found = s.inside(l, nil)
	return contain.KillAll(s.groups, s.found)
}

// kill kills all that can be found, and returns it.
func (s *sweeper) kill() (left []proc.Stat, err error) {
	left, err = s.left()
	return left, errors.Join(err, contain.KillAll(s.groups, left))
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
			names[i] = fmt.Sprintf("%s (open in %s)", path, cmp.Or(proc.Names(proc.Openers(path)), "no process that is seen"))
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
		_, inside, errLook := g.Look()
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
	var l devicelock.Files
	if s.order != nil {
		member, _, _ := s.order.World.Member(s.order.Node)
		l = devicelock.Of(s.order.LockDir, member.Devices, s.dir)
	} else if l, err = devicelock.All(s.lockDir, s.dir); err != nil {
		return nil, err
	}
	if held, err = l.GiveBack(); len(held) == 0 || err != nil {
		return held, err
	}
	if err = l.Clear(s.contained); err != nil {
		return held, err
	}
	return l.GiveBack()
}

func (s *sweeper) removeGroups() error {
	err := contain.RemoveAll(s.limits)
	for _, g := range s.groups {
		err = errors.Join(err, g.Remove())
	}
	return err
}

// unkillable names what is left. fault is one in the way of finding all of it.
func (s *sweeper) unkillable(left []proc.Stat, fault error) error {
	u := &Unkillable{names: proc.Names(left)}
	for _, p := range left {
		u.PIDs = append(u.PIDs, p.PID)
	}
	u.KillPending = proc.OnlyKillPending(left, s.left) && s.sawAll(left, fault)
	return u
}

// sawAll reports whether nothing of the run can live but what is left: all places
// could be looked at, and no group holds anything else.
func (s *sweeper) sawAll(left []proc.Stat, fault error) bool {
	if fault != nil || s.faults != nil || !s.contained && s.hidden(left) != nil {
		return false
	}
	for _, g := range s.groups {
		pids, populated, err := g.Look()
		if err != nil || populated && len(pids) == 0 {
			return false
		}
		for _, pid := range pids {
			p, err := proc.ReadStat(pid)
			if err == nil && p.Lives() && !slices.ContainsFunc(left, p.Same) {
				return false
			}
		}
	}
	return true
}

// left finds the processes of the run that still live, wherever they have got to,
// by a census that begins after the call.
func (s *sweeper) left() ([]proc.Stat, error) {
	c, err := observed.census()
	if err != nil {
		return nil, err
	}
	s.seen = c
	s.addGroups(c.listing)
	found := proc.Merged(s.inside(c.listing, c.hosting(s.dir)), c.marked(s.dir, s.owner))
	if s.under != 0 {
		found = proc.Merged(found, c.family.Descendants(map[int]bool{s.under: true}))
	}
	// One that is ending shows neither environment nor command line any more, but
	// still has its files and devices.
	for _, p := range s.found {
		if now, gone := proc.ReadStat(p.PID); gone == nil && now.Same(p) && now.Lives() {
			found = proc.Merged(found, []proc.Stat{now})
		}
	}
	s.found = found
	return slices.Clone(found), nil
}

// inside finds those of a listing that are its shim's, its workers' or the hosts', or
// descend from these, or are in its groups or its limits'. It waits for no process.
func (s *sweeper) inside(l *listing, hosts []proc.Stat) []proc.Stat {
	roots := map[int]bool{}
	for _, p := range append([]run.Process{s.shim}, s.workers...) {
		if proc.Alive(p) {
			roots[p.PID] = true
		}
	}
	for _, p := range hosts {
		roots[p.PID] = true
	}
	found := l.family.Descendants(roots)
	for _, p := range l.procs {
		if roots[p.PID] && p.Lives() {
			found = append(found, p)
		}
	}
	var pids []int
	for _, g := range s.groups {
		inside, _, _ := g.Look() // whether it can be looked into is what rest asks
		pids = append(pids, inside...)
	}
	for _, top := range slices.Concat(s.limits, s.scopes) {
		pids = append(pids, contain.Members(top)...)
	}
	return proc.Merged(found, proc.Living(pids))
}

// repeat calls once until it is done. It pauses in between, for proc.FirstPause and then
// longer, but never longer than what once returns: children's ends are signalled,
// other processes' are not.
func repeat(once func() (done bool, longest time.Duration)) {
	for pause := proc.FirstPause; ; pause *= 2 {
		done, longest := once()
		if done {
			return
		}
		pause = min(pause, longest)
		time.Sleep(pause)
	}
}

// Unkillable is the error of a sweep that processes have survived.
type Unkillable struct {
	PIDs []int
	// KillPending: none of them ever runs code of its own again, and there are no others.
	KillPending bool
	names       string
}

func (u *Unkillable) Error() string {
	return fmt.Sprintf("UNKILLABLE %s: reboot the node to get its devices back", u.names)
}
