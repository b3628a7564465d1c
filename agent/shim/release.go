package shim

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
)

// releaseBound is how long parked processes may take until each has said that it can go on.
const releaseBound = 15 * time.Second

// releaseAll tells parked processes their plan, and lets them go on. They all wait until each has said that what it has
// read is unchanged, and is where it belongs: up to that moment they can be done without. Then they are
// killed, and workers are executed as without a preparation. Workers beyond those that are parked are executed.
func (s *starter) releaseAll(all []*parked) {
	n := min(len(all), len(s.workers))
	for _, extra := range all[n:] {
		_ = extra.conn.Close()
		_ = extra.out.Close()
		killTree(extra.process.PID)
	}
	all = all[:n]
	workers, err := s.bindAll(all)
	if err == nil {
		err = s.letGo(all)
	}
	for _, p := range all {
		_ = p.conn.Close()
	}
	if err != nil {
		for _, w := range workers {
			w.log.stop()
		}
		for _, p := range all[len(workers):] {
			_ = p.out.Close()
		}
		s.post(func() {
			s.facts.Execution = run.Execution{Task: run.Task{Done: true}, Unreleased: printable(err.Error())}
		})
		return
	}
	at := time.Now()
	startedWarm(s.order.LearnedFile)
	s.post(func() {
		// In one event: a worker may have ended already, and its end is heard of as soon as it is known.
		for i, w := range workers {
			w.at = at
			s.executed(s.workers[i], w, nil)
		}
		s.facts.Execution.Warm = true
		s.ahead.parked, s.ahead.living = nil, nil
	})
	s.executeFrom(n)
}

// bindAll tells parked processes their plan, and puts each where its worker belongs. A command that waits by itself
// is told in letGo: it goes on at once.
func (s *starter) bindAll(all []*parked) (workers []born, err error) {
	order := s.order
	order.Env = s.env
	for local, p := range all {
		if !maps.Equal(lasting(order, s.dir), p.env) {
			return workers, errors.New("its environment has changed since it was parked")
		}
		if bytes := p.wrote(); bytes != 0 {
			return workers, fmt.Errorf("before it was parked it wrote %d bytes that were not seen to be written", bytes)
		}
		if err = p.conn.SetDeadline(time.Now().Add(releaseBound)); err != nil {
			return workers, err
		}
		// The new world waits for this process from here on, so it gets a worker's priority before it compares what it read.
		if err = hurry(p.process.PID); err != nil {
			return workers, err
		}
		if s.order.Waits() {
			continue
		}
		if err = p.say(listed(s.told(local))); err != nil {
			return workers, fmt.Errorf("tell a parked process its plan: %w", err)
		}
	}
	for local, p := range all {
		if !s.order.Waits() {
			if err = s.hearOk(p); err != nil {
				return workers, err
			}
		}
		now, errStat := readStat(p.process.PID)
		if errStat != nil || now.start != p.process.StartTime || !now.lives() {
			return workers, errors.Join(errors.New("what was parked has ended"), errStat)
		}
		log := attachLog(s.order, s.member.FirstRank+local, p.out, newLineReader(s.shared))
		workers = append(workers, born{pid: now.pid, start: now.start, log: log})
		if err = s.settle(p, local); err != nil {
			return workers, err
		}
	}
	return workers, nil
}

// settle puts a parked process where its worker belongs, with the limits of one.
func (s *starter) settle(p *parked, local int) error {
	if err := s.containment.placeTree(p.process.PID, local); err != nil {
		return err
	}
	if s.order.Waits() {
		return nil
	}
	if err := p.showPlan(s.told(local)); err != nil {
		s.log.Debug().Err(err).Msg("the kernel shows the environment of a parked process without its plan")
	}
	if err := p.free(s.id); err != nil {
		return fmt.Errorf("let a parked process write files again: %w", err)
	}
	return nil
}

// told is what a parked process is told: what the plan adds to its environment. A command that waits by itself gets all of it.
func (s *starter) told(local int) map[string]string {
	order := s.order
	order.Env = s.env
	all := variables(order, s.dir, local)
	if s.order.Waits() {
		return all
	}
	maps.DeleteFunc(all, func(name, value string) bool {
		had, ok := lasting(order, s.dir)[name]
		return ok && had == value
	})
	return all
}

// hearOk hears that what a process has read is unchanged.
func (s *starter) hearOk(p *parked) error {
	words, err := p.hear()
	switch {
	case err != nil:
		return fmt.Errorf("a parked process: %w", err)
	case words[0] == "cold" && len(words) > 1:
		if len(words) > 2 && words[2] != "-" {
			learn(s.order.LearnedFile, words[2])
		}
		return errors.New(words[1])
	case words[0] != "ok":
		return fmt.Errorf("a parked process says %q", words)
	}
	return nil
}

// letGo lets the processes go on, the others once rank 0 listens, where the job's workers are known to meet by a framework.
// If one has ended before, its peers are told of its end as of any worker's.
func (s *starter) letGo(all []*parked) error {
	for i, p := range all {
		rank := s.member.FirstRank + i
		if (rank == 1 || rank != 0 && i == 0) && p.meets && s.meetsFirst() {
			awaitMaster(s.abort, s.order.World.Master, masterBound)
		}
		last := []string{"go"}
		if s.order.Waits() { // it goes on once it has read its environment
			last = listed(s.told(i))
		}
		if err := p.say(last); err != nil && i == 0 {
			return fmt.Errorf("a parked process has ended: %w", err)
		}
	}
	return nil
}

// meetsFirst reports whether ranks are to wait until rank 0 listens.
func (s *starter) meetsFirst() bool {
	w := s.order.World
	return w.Processes() > 1 && w.Master.Port != 0 && readLearned(s.order.LearnedFile).Meets
}

// lastPrinted is the last line that a process has printed.
func lastPrinted(out *os.File) string {
	b := make([]byte, maxPrinted)
	if err := out.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return ""
	}
	n, _ := out.Read(b)
	return lastLine(b[:n])
}
