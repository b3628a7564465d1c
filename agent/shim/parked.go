package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A command whose owner says that it waits is started itself in the launcher's place: the process
// comes up, says so by a byte at the descriptor that readyFDVariable names, and reads there until it is
// released. Then it gets the environment that it would have been executed with, and is the worker.
//
//	exec, BELLOWS_READY_FD=3 ──► starts up ──► writes a byte ──► reads NAME=VALUE\0 … NAME=VALUE\0\0 ──► runs
//
// An end of what it reads before the empty name says that it is not wanted.
// It is one process, so that it takes part where the generation has one on this node. Before
// its release it has no device's lock and is in the launcher's group, as a launcher is.

// readyFDVariable names the descriptor at which a command that waits says that it is ready.
const readyFDVariable = "BELLOWS_READY_FD"

// waits reports whether the run's command waits to be released, by itself.
func (o Order) waits() bool { return o.Prepare != nil && o.Prepare.Waits }

// words are what a launcher is executed with: of a command that waits, its own.
func (a *attempt) words() (argv, env []string) {
	if a.order.waits() {
		return a.order.Command, append(listed(a.env), fmt.Sprintf("%s=%d", readyFDVariable, launcherFD))
	}
	return append(slices.Clone(a.command.Head), "-c", launcherCode), listed(a.env)
}

// awaitByte waits until a command that waits is ready.
func (a *attempt) awaitByte(r *readyLauncher) (word launcherWord, err error) {
	if err = r.conn.SetDeadline(time.Now().Add(importBound)); err != nil {
		return word, err
	}
	stop := context.AfterFunc(a.abort, func() { _ = r.conn.SetDeadline(time.Unix(0, 1)) })
	defer stop()
	if _, err = r.lines.ReadByte(); err != nil {
		return word, errSilent
	}
	word.Ready = true
	return word, nil
}

// takeParked makes the process that waits the worker, but for its release.
func (s *starter) takeParked(r *readyLauncher) ([]*baby, error) {
	if n := len(s.workers); n != 1 {
		return nil, fmt.Errorf("its generation has %d processes on this node, and one waited", n)
	}
	order := s.order
	order.Env = s.env
	if !maps.Equal(lasting(order, s.dir), r.env) {
		return nil, errors.New("its environment has changed since it was started")
	}
	if err := r.conn.SetDeadline(time.Now().Add(forkBound)); err != nil {
		return nil, err
	}
	p, err := readStat(r.process.PID)
	if err != nil || p.start != r.process.StartTime || !p.lives() {
		return nil, errors.Join(errors.New("the process that waited has ended"), err)
	}
	log, out, err := openLog(s.order, s.member.FirstRank, s.newLineReader())
	if err != nil {
		return nil, err
	}
	to := os.NewFile(uintptr(out), "log pipe")
	b := &baby{conn: r.conn, born: born{pid: p.pid, start: p.start, log: log}, word: released(variables(order, s.dir, 0))}
	err = r.out.SetReadDeadline(time.Time{})
	if err == nil {
		_, err = to.Write(r.printed) // what fits into a pipe, and its reader takes it
	}
	go func() { // the worker's output has been a pipe since before its rank was known
		_, _ = io.Copy(to, r.out)
		_, _ = to.Close(), r.out.Close()
	}()
	return []*baby{b}, errors.Join(err, s.containment.place(p.pid, 0))
}

// released is what a process that waits reads when it is let go.
func released(env map[string]string) []byte {
	return []byte(strings.Join(listed(env), "\x00") + "\x00\x00")
}
