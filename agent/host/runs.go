package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/record"
)

// rememberedSteps is how many steps' saves are remembered of a run: half as many as
// a digest may take saves for nodes to choose the same steps.
const rememberedSteps = 128

// run is one generation's part on this node: its directory, its shim, and what
// is being done with what it saved. Only the owner touches it.
type run struct {
	jg      record.JobGen
	nonce   string // of the world that it is for
	dir     string
	order   shim.Order
	process shim.Process // the shim's, of a run that was adopted
	shim    agent.Shim
	report  *shim.Report
	saves   []shim.Save // of the newest steps, as far as this agent has heard of them
	pushed  *agent.Wish
	refused *record.Failed
	// verified: the checkpoint to resume from is sound; cancel ends the search for that.
	verified bool
	cancel   context.CancelFunc
	swept    bool
	unswept  string           // why it cannot be
	undead   *shim.Unkillable // what has survived the last sweep
	// deadline is what the witness holds the workers to: 0 = not known, fence.Never = to nothing.
	deadline int64
	struck   bool // by the witness
	// toldToKill and toldToGo are when the shim was first told to kill, and to retire; zero = not yet.
	toldToKill, toldToGo time.Time

	digests map[int64]agent.Work[record.Saved]
	merges  map[int64]agent.Work[record.Offer]
	plain   *agent.Plain
	// retained is what was last to be kept of the checkpoints.
	retained checkpoint.Retain
	lost     string    // why the newest checkpoint came to nothing
	lostTold bool      // and that is written down as an event
	short    string    // why the next one may not fit
	roomSeen time.Time // when that was last looked at
	shared   string    // who else is on its devices
	opaque   bool      // its processes cannot be told from others
	looking  bool      // a look for plain checkpoints is under way
	looked   time.Time // when the last one began
	unseen   time.Time // since when they have failed; zero = the last one did not
	changed  time.Time // when anything of this last changed
	// wishes hands the newest wish to whoever attends the shim.
	wishes chan shim.Wish
}

func (n *node) newRun(jg record.JobGen, nonce, dir string, state agent.Shim) *run {
	r := &run{
		jg: jg, nonce: nonce, dir: dir, shim: state, changed: time.Now(),
		digests: map[int64]agent.Work[record.Saved]{}, merges: map[int64]agent.Work[record.Offer]{},
		wishes: make(chan shim.Wish, 1), cancel: func() {},
	}
	n.runs[jg] = r
	return r
}

// runHash is how much of a hash is in a run directory's name.
const runHash = 8

// runDir is short, because sockets lie in it, and still says to people whose it is.
// It is no other generation's, also when numbers come again.
func (n *node) runDir(jg record.JobGen, nonce string) string {
	const readable = 16
	sum := sha256.Sum256([]byte(string(jg.Job) + nonce))
	name := string(jg.Job)
	if len(name) > readable {
		name = name[:readable]
	}
	return filepath.Join(n.cfg.RunDir, fmt.Sprintf("%s-%s-g%d", name, hex.EncodeToString(sum[:])[:runHash], jg.Generation))
}

// observed is what is on the node, for agent.Plan.
func (n *node) observed() agent.Observed {
	o := agent.Observed{Now: time.Now()}
	for _, r := range n.runs {
		o.Runs = append(o.Runs, agent.Run{
			Job: r.jg.Job, Generation: r.jg.Generation, Nonce: r.nonce,
			Shim: r.shim, Report: told(r.report, r.saves), Pushed: r.pushed, Refused: r.refused, Verified: r.verified,
			Swept: n.over(r), Struck: r.struck, ToldToKill: ago(r.toldToKill), ToldToGo: ago(r.toldToGo),
			Doomed:  n.doomed(r),
			Digests: r.digests, Merges: r.merges, Plain: r.plain, Quiet: time.Since(r.changed),
		})
	}
	return o
}

// ago is how long ago something was; 0 if it never was.
func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}

// told is a report in the words of the agent's decisions.
func told(r *shim.Report, saves []shim.Save) *agent.Report {
	if r == nil {
		return nil
	}
	out := &agent.Report{
		Workers: r.Workers, ExecedAt: r.ExecedAt, Containment: r.Containment, DeviceFiles: r.DeviceFiles, Processes: r.Processes, Deadline: r.Deadline,
		Held: r.Held, Failed: r.Failed, Progress: r.Progress, Stopped: r.Stopped, Unkillable: r.Unkillable,
	}
	for _, s := range saves {
		out.Saves = append(out.Saves, agent.Save(s))
	}
	return out
}

// remember takes the saves of a report in: a report holds those of a few steps,
// and a node that digests slower than its job saves chooses out of more. Sorted by
// step and rank.
func (r *run) remember(saves []shim.Save) {
	if len(saves) == 0 {
		return
	}
	first := saves[0].Step
	r.saves = slices.DeleteFunc(r.saves, func(s shim.Save) bool { return s.Step >= first })
	r.saves = append(r.saves, saves...)
	steps := 1
	for i := len(r.saves) - 1; i > 0; i-- {
		if r.saves[i].Step == r.saves[i-1].Step {
			continue
		}
		if steps++; steps > rememberedSteps {
			r.saves = slices.Clone(r.saves[i:])
			return
		}
	}
}

// attend keeps a connection to a live shim, hands wishes over and reports back,
// until the shim's process is gone.
func (n *node) attend(r *run, process shim.Process) {
	ctx := n.ctx
	n.wg.Go(func() {
		if reach, err := shim.ReachOf(r.dir); err == nil { // else the witness tries again when it has to
			n.witness.learn(r.jg, reach)
		}
		pause := retryFirst
		for ctx.Err() == nil {
			conn, err := shim.Dial(r.dir)
			if err == nil {
				pause = retryFirst
				n.post(func() { r.pushed, r.changed = nil, time.Now() })
				began := time.Now()
				n.converse(ctx, r, conn)
				if time.Since(began) < retryFirst {
					rest(ctx, retryFirst) // a shim that hangs up at once is not to keep the node busy
				}
				continue
			}
			if !shim.Alive(process) {
				n.bury(r)
				return
			}
			rest(ctx, pause)
			pause = min(2*pause, retryLast)
		}
	})
}

// converse serves one connection until it ends.
func (n *node) converse(ctx context.Context, r *run, conn *shim.Conn) {
	defer conn.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case report, ok := <-conn.Reports():
			if !ok {
				return
			}
			n.post(func() { n.reported(r, report) })
		case w := <-r.wishes:
			if err := conn.Push(w); err != nil {
				log := n.logger(r.jg)
				log.Debug().Err(err).Msg("connecting to the shim again")
				return
			}
		}
	}
}

// bury notes a shim's death, with the last it had to say.
func (n *node) bury(r *run) {
	report, err := shim.ReadReport(r.dir)
	n.post(func() {
		if err == nil {
			n.reported(r, report)
		}
		r.shim, r.pushed, r.changed = agent.Dead, nil, time.Now()
		log := n.logger(r.jg)
		if r.report == nil || r.report.Stopped == nil {
			log.Error().Msg("the shim died; sweeping what it has left")
		}
	})
}

// reported takes a report in. One that lacks what an earlier one had is older:
// it was read from disk while a newer one was on its way.
func (n *node) reported(r *run, report shim.Report) {
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
	log := n.logger(r.jg)
	if len(report.Workers) > 0 && (r.report == nil || len(r.report.Workers) == 0) {
		log.Info().Int("workers", len(report.Workers)).Str("phase", "running").Msg("workers are running")
	}
	if report.Stopped != nil && (r.report == nil || r.report.Stopped == nil) {
		log.Info().Bool("finished", report.Stopped.Finished).Str("phase", "stopped").Msg("workers have stopped")
		n.lookSoon() // what they may have left
	}
	r.report, r.changed = &report, time.Now()
	r.remember(report.Saves)
}

// push gives the newest wish to whoever attends the shim; an older one that was
// not handed over yet is replaced.
func (n *node) push(r *run, w agent.Wish) {
	select {
	case <-r.wishes:
	default:
	}
	r.wishes <- shim.Wish(w)
	r.pushed = &w
	if w.Kill != "" && r.toldToKill.IsZero() {
		r.toldToKill = time.Now()
	}
	if w.Retire && r.toldToGo.IsZero() {
		r.toldToGo = time.Now()
	}
	if m, _, _ := r.order.World.Member(n.cfg.Node); w.Prolongs(m.AliveRev, n.presence.aliveRev) {
		r.deadline = w.Deadline
	}
}

// forgetRuns drops what was kept of runs that never came to be and are recorded
// as stopped, or that nobody wants any more.
func (n *node) forgetRuns() {
	for jg, r := range n.runs {
		if r.shim != agent.Absent {
			continue
		}
		gone := n.records.known(genPart(jg)) && !n.records.mirror.Job(jg.Job).Generation(jg.Generation).Plan.Exists()
		if gone || n.acks(jg).Stopped.Exists() {
			r.cancel()
			n.drop(jg)
		}
	}
}

// drop forgets a run that is gone.
func (n *node) drop(jg record.JobGen) {
	delete(n.runs, jg)
	n.witness.forget(jg)
}
