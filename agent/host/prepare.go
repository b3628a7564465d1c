package host

import (
	"context"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// prepareShim starts the shim of a generation that has no plan yet. If it cannot be
// started, nothing of it is left, or it is swept; the generation is then started without.
func (la *launcher) prepareShim(at loop.Lane, a agent.PrepareShim) {
	nonce := a.Next.Nonce
	r := la.runs.newRun(at.Of, nonce, la.runDir(at.Of, nonce), agent.Starting)
	world := cluster.World{Job: at.Of.Job, Generation: at.Of.Generation, Nonce: nonce}
	r.order = la.order(at.Of, a.Spec, record.Plan{World: world})
	r.order.Prepare = &run.Prepare{Workers: a.Next.Workers, Memory: la.cfg.LauncherMemory, Waits: a.Spec.ReadyFD}
	r.order.Checkpoint, r.order.RestartCount, r.order.Training, r.order.Steps = "", 0, run.Training{}, 0
	r.binding, r.life, r.wish.deadline = agent.Unbound, la.session.presence.aliveRev, r.order.Deadline
	dir, order := r.dir, r.order
	log := la.Logger(at.Of)
	log.Info().Str("phase", "preparing").Msg("preparing the next generation")
	la.Beside(at, func(ctx context.Context) func() {
		process, left, err := la.launch(ctx, dir, order)
		return func() {
			r.changed = time.Now()
			if err == nil {
				r.shim = agent.Live
				la.shims.attend(r, process)
				return
			}
			log.Warn().Err(err).Msg("cannot prepare the next generation here: its workers will start without")
			r.unprepared, r.binding, r.shim, r.sweep.done = err.Error(), agent.Planned, agent.Absent, !left
			if left {
				r.binding, r.shim = agent.Spoiled, agent.Dead // to be swept
			}
		}
	})
}

// bind puts the plan of a prepared run into its directory.
func (la *launcher) bind(at loop.Lane, a agent.BindRun) {
	r := la.runs.all[at.Of]
	order := la.order(at.Of, a.Spec, a.Plan)
	order.Prepare = r.order.Prepare // as it was started
	member, _, _ := order.World.Member(la.cfg.Node)
	if refused := la.devices.Occupied(member.Devices); refused != nil {
		r.binding = agent.Spoiled // what follows finds the same, and says so
		return
	}
	dir := r.dir
	log := la.Logger(at.Of)
	log.Info().Str("phase", "starting").Int("world", order.World.Size()).Msg("starting workers from what was prepared")
	la.Beside(at, func(context.Context) func() {
		err := shim.Bind(dir, order)
		return func() {
			r.changed = time.Now()
			if err != nil {
				log.Warn().Err(err).Msg("cannot start what was prepared: starting without")
				r.binding = agent.Spoiled
				return
			}
			r.order, r.binding = order, agent.Bound
			la.devices.Soon()
		}
	})
}
