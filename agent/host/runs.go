package host

import (
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// runs are the generations' parts on this node. The loop owns it.
type runs struct {
	*shared
	stopped bool // workers of a run have stopped since the last look at the devices

	all map[record.JobGen]*hosted
}

func newRuns(sh *shared) *runs { return &runs{shared: sh, all: map[record.JobGen]*hosted{}} }

// touch notes that something has changed for a generation.
func (rs *runs) touch(jg record.JobGen) {
	if r := rs.all[jg]; r != nil {
		r.changed = time.Now()
	}
}

// killed notes that the watchdog has killed a run, or what was in its way.
func (rs *runs) killed(jg record.JobGen, err error) {
	rs.Post(func() {
		r, log := rs.all[jg], rs.Logger(jg)
		if err != nil {
			log.Error().Err(err).Msg("cannot kill workers past their deadline yet, trying again")
		}
		if r != nil && !r.wish.killed {
			r.wish.killed, r.changed = true, time.Now()
			log.Error().Msg("workers lived past their fencing deadline: killed them, as their shim did not")
		}
	})
}

func (rs *runs) newRun(jg record.JobGen, nonce, dir string, state agent.Shim) *hosted {
	r := &hosted{
		jg: jg, nonce: nonce, dir: dir, shim: state, changed: time.Now(),
		saves: saves.NewRun(),
		wish:  wishes{next: make(chan run.Wish, 1)}, resume: resumeCheck{cancel: func() {}},
	}
	rs.all[jg] = r
	return r
}

// current are the generations that concern this node. Sorted.
func (rs *runs) current() []record.JobGen { return agent.Concerns(rs.records.self(), rs.all) }

// onDevices are the generations here, as far as the devices are concerned.
func (rs *runs) onDevices() []devices.Run {
	all := make([]devices.Run, 0, len(rs.all))
	for jg, r := range rs.all {
		member, _, _ := r.order.World.Member(rs.cfg.Node)
		pids, _ := r.survivors()
		all = append(all, devices.Run{
			Of: jg, Dir: r.dir, Devices: member.Devices, Present: r.shim != agent.Absent, Holds: r.holds(),
			Stuck: len(pids) > 0, Unswept: r.shim == agent.Dead && !r.sweep.done && r.sweep.unkillable == nil,
		})
	}
	return all
}
