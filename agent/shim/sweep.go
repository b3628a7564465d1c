package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep ends everything that is left of a run whose shim has died, the shim
// itself if it only seems dead, and clears away its cgroup and sockets. It
// returns nil when no process is left and the run's device locks are free; an
// error names what survives SIGKILL, or what was in the way. It may be repeated,
// and takes up to UnkillableAfter. The directory and its last report stay.
//
// Three traces lead to the processes: the cgroups in the run record, also those
// that only limit; the workers in the last report, with all their descendants; and the socket's name in their
// environment, which they inherit wherever they go.
func Sweep(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	run, err := readRun(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // without an order no shim has ever come far
	} else if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	rec, err := readClaim(dir)
	if err != nil {
		return fmt.Errorf("sweep run %s: %w", dir, err)
	}
	s := sweeper{dir: dir, order: run.Order, limits: rec.Limits, shim: rec.Shim, group: openGroup(rec), workers: reported(dir, rec)}
	if err := s.killAll(); err != nil {
		return fmt.Errorf("sweep run %s: %w", dir, err)
	}
	for _, name := range []string{controlSocket, workerSocket} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sweep run %s: %w", dir, err)
		}
	}
	return nil
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

// readClaim returns the run record. If there is none it claims the run for nobody:
// a shim that was started by an agent's last breath, and is about to claim it, must
// find out that it has come too late.
func readClaim(dir string) (runRecord, error) {
	path := filepath.Join(dir, shimFile)
	var rec runRecord
	err := readJSON(path, &rec)
	if errors.Is(err, os.ErrNotExist) {
		nobody := runRecord{Version: ProtocolVersion}
		if err = claim(path, nobody); err == nil {
			return nobody, nil
		}
		if errors.Is(err, errClaimed) { // this very moment
			err = readJSON(path, &rec)
		}
	}
	return rec, err
}

type sweeper struct {
	dir     string
	order   Order
	limits  []string
	shim    Process
	group   group // nil = weak
	workers []Process
}

func (s *sweeper) killAll() error {
	pause := time.Duration(firstPause)
	for end := time.Now().Add(UnkillableAfter); ; {
		left, err := s.left()
		if s.group != nil {
			err = errors.Join(err, s.group.kill())
		}
		for _, p := range left {
			err = errors.Join(err, p.kill())
		}
		var held []string
		populated := false
		if len(left) == 0 && err == nil {
			held = heldStill(s.order, s.dir)
			if s.group != nil {
				_, populated, err = s.group.look()
			}
			if err == nil && len(held) == 0 && !populated {
				if err = s.removeGroup(); !errors.Is(err, unix.EBUSY) { // somebody is just leaving, or has just come
					return err
				}
			}
		}
		if time.Now().After(end) {
			return errors.Join(describeLeft(left, held, populated), err)
		}
		time.Sleep(pause) // nothing tells when somebody else's processes are gone
		pause = min(2*pause, time.Duration(lastPause))
	}
}

func (s *sweeper) removeGroup() error {
	err := removeTops(s.limits)
	if s.group != nil {
		err = errors.Join(err, s.group.remove())
	}
	return err
}

func describeLeft(left []stat, held []string, populated bool) error {
	names := make([]string, len(left))
	for i, p := range left {
		names[i] = p.String()
	}
	switch {
	case len(left) > 0:
		return fmt.Errorf("UNKILLABLE %s: reboot the node to get its devices back", strings.Join(names, ", "))
	case len(held) > 0:
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
	more, err := marked(s.dir)
	return merged(s.inside(all), more), err
}

// inside finds those that descend from its shim or its workers, or are in its
// group or its limits', of all processes.
func (s *sweeper) inside(all []stat) []stat {
	roots := map[int]bool{}
	for _, p := range append([]Process{s.shim}, s.workers...) {
		if Alive(p) {
			roots[p.PID] = true
		}
	}
	found := descendants(all, roots)
	for _, p := range all {
		if roots[p.pid] && p.lives() {
			found = append(found, p)
		}
	}
	var pids []int
	if s.group != nil {
		pids, _, _ = s.group.look() // whether it can be looked into is killAll's question
	}
	for _, top := range s.limits {
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

// marked finds the living processes whose environment names the run's worker
// socket: what workers have started carries it along.
func marked(dir string) ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	mark := []byte("\x00" + socketVariable + "=" + filepath.Join(dir, workerSocket) + "\x00")
	var found []stat
	for _, p := range all {
		if p.pid == os.Getpid() || !p.lives() {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), mark) {
			found = append(found, p)
		}
	}
	return found, nil
}
