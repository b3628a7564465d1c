package host

import (
	"context"
	"reflect"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/host/watchdog"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/record"
)

// shims are the connections to the runs' shims. The loop owns it; each connection is
// served by a goroutine of its own.
type shims struct {
	*shared
	session  *session
	watchdog *watchdog.Watchdog
	runs     *runs
}

// attend keeps a connection to a live shim, hands wishes over and reports back,
// until the shim's process is gone.
func (ss *shims) attend(r *hosted, process run.Process) {
	ctx := ss.Context()
	ss.Go(func() {
		if reach, err := sweep.ReachOf(r.dir); err == nil { // else the watchdog tries again when it has to
			ss.watchdog.Learn(r.jg, reach)
		}
		pause := loop.RetryFirst
		for ctx.Err() == nil {
			conn, err := shim.Dial(r.dir)
			if err == nil {
				pause = loop.RetryFirst
				ss.Post(func() { r.wish.pushed, r.changed = nil, time.Now() })
				began := time.Now()
				ss.converse(ctx, r, conn)
				if time.Since(began) < loop.RetryFirst {
					loop.Rest(ctx, loop.RetryFirst) // a shim that hangs up at once is not to keep the node busy
				}
				continue
			}
			if !proc.Alive(process) {
				ss.shimDied(r)
				return
			}
			loop.Rest(ctx, pause)
			pause = min(2*pause, loop.RetryLast)
		}
	})
}

// converse serves one connection until it ends.
func (ss *shims) converse(ctx context.Context, r *hosted, conn *shim.Conn) {
	defer conn.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case report, ok := <-conn.Reports():
			if !ok {
				return
			}
			ss.Post(func() { ss.reported(r, report) })
		case w := <-r.wish.next:
			if err := conn.Push(w); err != nil {
				log := ss.Logger(r.jg)
				log.Debug().Err(err).Msg("connecting to the shim again")
				return
			}
		}
	}
}

// shimDied notes a shim's death, with the last it had to say.
func (ss *shims) shimDied(r *hosted) {
	report, err := rundir.ReadReport(r.dir)
	ss.Post(func() {
		if err == nil {
			ss.reported(r, report)
		}
		r.shim, r.wish.pushed, r.changed = agent.Dead, nil, time.Now()
		log := ss.Logger(r.jg)
		if r.report == nil || r.report.Stopped == nil {
			log.Error().Msg("the shim died; sweeping what it has left")
		}
	})
}

// reported takes a report in. One that lacks what an earlier one had is older:
// it was read from disk while a newer one was on its way.
func (ss *shims) reported(r *hosted, report run.Report) {
	if r.report != nil && r.report.Stopped != nil && report.Stopped == nil {
		return
	}
	if r.report != nil {
		was := *r.report
		was.Deadline = report.Deadline
		if reflect.DeepEqual(was, report) { // nothing has happened there
			r.report = &report
			return
		}
	}
	log := ss.Logger(r.jg)
	if len(report.Workers) > 0 && (r.report == nil || len(r.report.Workers) == 0) {
		log.Info().Int("workers", len(report.Workers)).Str("phase", "running").Msg("workers are running")
	}
	if report.Stopped != nil && (r.report == nil || r.report.Stopped == nil) {
		log.Info().Bool("finished", report.Stopped.Finished).Str("phase", "stopped").Msg("workers have stopped")
		ss.runs.stopped = true // what they may have left
	}
	r.report, r.changed = &report, time.Now()
	r.saved = agent.Remember(r.saved, report.Saves)
}

// push gives the newest wish to the goroutine that serves the shim; an older one that was
// not handed over yet is replaced.
func (ss *shims) push(r *hosted, w run.Wish) {
	select {
	case <-r.wish.next:
	default:
	}
	r.wish.next <- w
	r.wish.pushed = &w
	if w.Kill != "" && r.wish.toldToKill.IsZero() {
		r.wish.toldToKill = time.Now()
	}
	if w.Retire && r.wish.toldToRetire.IsZero() {
		r.wish.toldToRetire = time.Now()
	}
	if m, _, _ := r.order.World.Member(ss.cfg.Node); r.binding == agent.Unbound || w.Prolongs(m.AliveRev, ss.session.presence.aliveRev) {
		r.wish.deadline = w.Deadline
	}
}

// forgetAbsent drops what was kept of runs that never came to be and are recorded
// as stopped, or whose plan is gone, and with it their grant.
func (ss *shims) forgetAbsent() {
	for jg, r := range ss.runs.all {
		if r.shim != agent.Absent {
			continue
		}
		gone := ss.records.known(genPart(jg)) && !ss.records.planOf(jg).Exists() && !ss.records.granted(jg) && !ss.records.preparing(jg)
		if gone || ss.records.acks(jg).Stopped.Exists() {
			r.resume.cancel()
			ss.drop(jg)
		}
	}
}

// drop forgets a run that is gone.
func (ss *shims) drop(jg record.JobGen) {
	delete(ss.runs.all, jg)
	ss.watchdog.Forget(jg)
}
