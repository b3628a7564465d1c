package host

import (
	"context"
	"reflect"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/cluster"
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
	saves   []run.Save // of the newest steps, as far as this agent knows them
	wish    wishes

	resume resumeCheck
	sweep  sweepResult

	digests  map[int64]agent.Work[record.Saved]
	merges   map[int64]agent.Work[record.Offer]
	plain    plainLooks
	retained checkpoint.Retain // what was last to be kept of the checkpoints
	lost     lostSave
	room     roomLook
	others   others
	changed  time.Time // when anything of this last changed
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

// resumeCheck is the check of the checkpoint to resume from.
type resumeCheck struct {
	sound  bool
	cancel context.CancelFunc // ends the check
}

// sweepResult is what the last sweep of a run has found.
type sweepResult struct {
	done       bool              // nothing of the run is left
	problem    string            // why it could not be done
	unkillable *sweep.Unkillable // what has survived it
}

// plainLooks are the looks for checkpoints of a plain script.
type plainLooks struct {
	found   *agent.Plain
	looking bool      // one is in progress
	began   time.Time // when the last one began
	failing time.Time // since when they have failed; zero = the last one did not
}

// lostSave is why the newest checkpoint came to nothing.
type lostSave struct {
	why  string
	told bool // written down as an event
}

// roomLook is whether the next checkpoint will fit.
type roomLook struct {
	short  string // why it may not
	looked time.Time
}

// others are the other processes on a run's devices.
type others struct {
	named   string
	unknown bool // its own processes cannot be told from others
}

// runs are the generations' parts on this node, each with a connection to its shim.
// The loop owns it; each connection is served by a goroutine of its own.
type runs struct {
	*shared
	session    *session
	watchdog   *watchdog
	surveySoon func() // the devices are surveyed with the next tick

	all map[record.JobGen]*hosted
}

func newRuns(sh *shared, s *session, w *watchdog) *runs {
	return &runs{shared: sh, session: s, watchdog: w, surveySoon: func() {}, all: map[record.JobGen]*hosted{}}
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
		digests: map[int64]agent.Work[record.Saved]{}, merges: map[int64]agent.Work[record.Offer]{},
		wish: wishes{next: make(chan run.Wish, 1)}, resume: resumeCheck{cancel: func() {}},
	}
	rs.all[jg] = r
	return r
}

// attend keeps a connection to a live shim, hands wishes over and reports back,
// until the shim's process is gone.
func (rs *runs) attend(r *hosted, process run.Process) {
	ctx := rs.ctx
	rs.wg.Go(func() {
		if reach, err := sweep.ReachOf(r.dir); err == nil { // else the watchdog tries again when it has to
			rs.watchdog.learn(r.jg, reach)
		}
		pause := retryFirst
		for ctx.Err() == nil {
			conn, err := shim.Dial(r.dir)
			if err == nil {
				pause = retryFirst
				rs.post(func() { r.wish.pushed, r.changed = nil, time.Now() })
				began := time.Now()
				rs.converse(ctx, r, conn)
				if time.Since(began) < retryFirst {
					rest(ctx, retryFirst) // a shim that hangs up at once is not to keep the node busy
				}
				continue
			}
			if !proc.Alive(process) {
				rs.shimDied(r)
				return
			}
			rest(ctx, pause)
			pause = min(2*pause, retryLast)
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
			rs.post(func() { rs.reported(r, report) })
		case w := <-r.wish.next:
			if err := conn.Push(w); err != nil {
				log := rs.logger(r.jg)
				log.Debug().Err(err).Msg("connecting to the shim again")
				return
			}
		}
	}
}

// shimDied notes a shim's death, with the last it had to say.
func (rs *runs) shimDied(r *hosted) {
	report, err := rundir.ReadReport(r.dir)
	rs.post(func() {
		if err == nil {
			rs.reported(r, report)
		}
		r.shim, r.wish.pushed, r.changed = agent.Dead, nil, time.Now()
		log := rs.logger(r.jg)
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
	log := rs.logger(r.jg)
	if len(report.Workers) > 0 && (r.report == nil || len(r.report.Workers) == 0) {
		log.Info().Int("workers", len(report.Workers)).Str("phase", "running").Msg("workers are running")
	}
	if report.Stopped != nil && (r.report == nil || r.report.Stopped == nil) {
		log.Info().Bool("finished", report.Stopped.Finished).Str("phase", "stopped").Msg("workers have stopped")
		rs.surveySoon() // what they may have left
	}
	r.report, r.changed = &report, time.Now()
	r.saves = agent.Remember(r.saves, report.Saves)
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

// holders are the generations here that may have processes, by their devices.
func (rs *runs) holders() map[cluster.DeviceID]record.JobGen {
	holders := map[cluster.DeviceID]record.JobGen{}
	for jg, r := range rs.all {
		if r.shim == agent.Absent || r.report != nil && r.report.Stopped != nil {
			continue
		}
		member, _, _ := r.order.World.Member(rs.cfg.Node)
		for _, d := range member.Devices {
			holders[d] = jg
		}
	}
	return holders
}
