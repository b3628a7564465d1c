package host

import (
	"context"
	"reflect"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/record"
)

// hosted is what this agent knows of one generation's run here: its directory, its shim, and what is
// being done with what it saved. The loop owns it.
type hosted struct {
	beginning

	jg      record.JobGen
	nonce   string // of the world that it is for
	dir     string
	order   run.Order
	process run.Process // the shim's, of a run that was adopted
	shim    agent.Shim
	report  *run.Report
	saved   []run.Save // of the newest steps, as far as this agent knows them
	wish    wishes

	resume resumeCheck
	sweep  sweepResult

	saves   *saves.Run // what is being done with what it saves
	changed time.Time  // when anything of this last changed
}

// beginning is how a run comes to have workers.
type beginning struct {
	refused    *record.Failed // why it could not be started
	binding    agent.Binding  // whether it was prepared, and has its plan
	unprepared string         // why it could not be prepared here
	life       int64          // of the node, in which this agent has prepared it; 0 = it has not
}

// wishes is what the shim was told.
type wishes struct {
	next   chan run.Wish // hands the newest wish to the goroutine that serves the connection
	pushed *run.Wish     // the last one that went over the present connection
	// deadline is what the watchdog holds the workers to: 0 = not known, fence.Never = to nothing.
	deadline int64
	killed   bool // by the watchdog
	// toldToKill and toldToRetire are when the shim was first told so; zero = not yet.
	toldToKill, toldToRetire time.Time
}

// sweepResult is what the last sweep of a run has found.
type sweepResult struct {
	done       bool              // nothing of the run is left
	problem    string            // why it could not be done
	unkillable *sweep.Unkillable // what has survived it
}

// runs are the generations' parts on this node, each with a connection to its shim.
// The loop owns it; each connection is served by a goroutine of its own.
type runs struct {
	*shared
	session  *session
	watchdog *watchdog
	stopped  bool // workers of a run have stopped since the last look at the devices

	all map[record.JobGen]*hosted
}

func newRuns(sh *shared, s *session, w *watchdog) *runs {
	return &runs{shared: sh, session: s, watchdog: w, all: map[record.JobGen]*hosted{}}
}

// touch notes that something has changed for a generation.
func (rs *runs) touch(jg record.JobGen) {
	if r := rs.all[jg]; r != nil {
		r.changed = time.Now()
	}
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

// attend keeps a connection to a live shim, hands wishes over and reports back,
// until the shim's process is gone.
func (rs *runs) attend(r *hosted, process run.Process) {
	ctx := rs.Context()
	rs.Go(func() {
		if reach, err := sweep.ReachOf(r.dir); err == nil { // else the watchdog tries again when it has to
			rs.watchdog.learn(r.jg, reach)
		}
		pause := loop.RetryFirst
		for ctx.Err() == nil {
			conn, err := shim.Dial(r.dir)
			if err == nil {
				pause = loop.RetryFirst
				rs.Post(func() { r.wish.pushed, r.changed = nil, time.Now() })
				began := time.Now()
				rs.converse(ctx, r, conn)
				if time.Since(began) < loop.RetryFirst {
					loop.Rest(ctx, loop.RetryFirst) // a shim that hangs up at once is not to keep the node busy
				}
				continue
			}
			if !proc.Alive(process) {
				rs.shimDied(r)
				return
			}
			loop.Rest(ctx, pause)
			pause = min(2*pause, loop.RetryLast)
		}
	})
}

// converse serves one connection until it ends.
func (rs *runs) converse(ctx context.Context, r *hosted, conn *shim.Conn) {
	defer conn.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case report, ok := <-conn.Reports():
			if !ok {
				return
			}
			rs.Post(func() { rs.reported(r, report) })
		case w := <-r.wish.next:
			if err := conn.Push(w); err != nil {
				log := rs.Logger(r.jg)
				log.Debug().Err(err).Msg("connecting to the shim again")
				return
			}
		}
	}
}

// shimDied notes a shim's death, with the last it had to say.
func (rs *runs) shimDied(r *hosted) {
	report, err := rundir.ReadReport(r.dir)
	rs.Post(func() {
		if err == nil {
			rs.reported(r, report)
		}
		r.shim, r.wish.pushed, r.changed = agent.Dead, nil, time.Now()
		log := rs.Logger(r.jg)
		if r.report == nil || r.report.Stopped == nil {
			log.Error().Msg("the shim died; sweeping what it has left")
		}
	})
}

// reported takes a report in. One that lacks what an earlier one had is older:
// it was read from disk while a newer one was on its way.
func (rs *runs) reported(r *hosted, report run.Report) {
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
	log := rs.Logger(r.jg)
	if len(report.Workers) > 0 && (r.report == nil || len(r.report.Workers) == 0) {
		log.Info().Int("workers", len(report.Workers)).Str("phase", "running").Msg("workers are running")
	}
	if report.Stopped != nil && (r.report == nil || r.report.Stopped == nil) {
		log.Info().Bool("finished", report.Stopped.Finished).Str("phase", "stopped").Msg("workers have stopped")
		rs.stopped = true // what they may have left
	}
	r.report, r.changed = &report, time.Now()
	r.saved = agent.Remember(r.saved, report.Saves)
}

// push gives the newest wish to the goroutine that serves the shim; an older one that was
// not handed over yet is replaced.
func (rs *runs) push(r *hosted, w run.Wish) {
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
	if m, _, _ := r.order.World.Member(rs.cfg.Node); r.binding == agent.Unbound || w.Prolongs(m.AliveRev, rs.session.presence.aliveRev) {
		r.wish.deadline = w.Deadline
	}
}

// forgetAbsent drops what was kept of runs that never came to be and are recorded
// as stopped, or whose plan is gone, and with it their grant.
func (rs *runs) forgetAbsent() {
	for jg, r := range rs.all {
		if r.shim != agent.Absent {
			continue
		}
		gone := rs.records.known(genPart(jg)) && !rs.records.planOf(jg).Exists() && !rs.records.granted(jg) && !rs.records.preparing(jg)
		if gone || rs.records.acks(jg).Stopped.Exists() {
			r.resume.cancel()
			rs.drop(jg)
		}
	}
}

// drop forgets a run that is gone.
func (rs *runs) drop(jg record.JobGen) {
	delete(rs.all, jg)
	rs.watchdog.forget(jg)
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

// holds reports whether the run may have processes.
func (r *hosted) holds() bool {
	return r.shim != agent.Absent && (r.report == nil || r.report.Stopped == nil)
}
