package shim

import (
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
)

// releaseAll tells parked processes their plan, and lets them go on. They all wait until each has said that what it has
// read is unchanged, and is where it belongs: up to that moment they can be done without. Then they are
// killed, and workers are executed as without a preparation. Workers beyond those that are parked are executed.
func (s *starter) releaseAll(all []*warm.Parked) {
	n := min(len(all), len(s.workers))
	for _, extra := range all[n:] {
		extra.Discard()
	}
	all = all[:n]
	order := s.order
	order.Env = s.env
	r := warm.Release{Dir: s.dir, Order: order, FirstRank: s.member.FirstRank, Identity: s.id, Containment: s.containment, Log: s.log}
	err := r.Bind(all)
	var workers []born
	if err == nil {
		for local, p := range all {
			log := attachLog(s.order, s.member.FirstRank+local, p.Out, newLineReader(s.shared))
			workers = append(workers, born{pid: p.Process.PID, start: p.Process.StartTime, log: log})
		}
		err = r.LetGo(s.abort, all)
	}
	for _, p := range all {
		p.Close()
		if workers == nil {
			_ = p.Out.Close()
		}
	}
	if err != nil {
		for _, w := range workers {
			w.log.stop()
		}
		s.post(func() {
			s.facts.Execution = run.Execution{Task: run.Task{Done: true}, Unreleased: cluster.Printable(err.Error())}
		})
		return
	}
	at := time.Now()
	warm.Started(s.order.LearnedFile)
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
