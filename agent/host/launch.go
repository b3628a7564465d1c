package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// startBound is how long a shim may take to be ready: it only reads its order
// and opens its sockets before that.
const startBound = 30 * time.Second

// launcher starts runs and sweeps them. The loop owns it.
type launcher struct {
	*shared
	runs    *runs
	shims   *shims
	session *session
	devices *devices.Devices

	cluster string // its name
	scopes  bool   // shims get transient scopes of systemd's
}

// order is what the shim needs to know to carry out a plan.
func (la *launcher) order(jg record.JobGen, spec record.Submitted, plan record.Plan) run.Order {
	member, _, _ := plan.World.Member(la.cfg.Node)
	return run.Order{
		Version: run.ProtocolVersion, Cluster: la.cluster, Node: la.cfg.Node,
		World: plan.World, Owner: spec.Owner, Spec: spec.Spec,
		Checkpoint:   layout.Path(spec.CheckpointDir, jg.Job, jg.Generation, plan.World.Nonce),
		Resume:       plan.Resume,
		RestartCount: int(jg.Generation) - 1, //nolint:gosec // counted from 1, and far from an int's bounds
		LogDir:       filepath.Join(la.cfg.logDir(), string(jg.Job), layout.Generation(jg.Generation, "")),
		LogMaxBytes:  la.cfg.LogBytes,
		LockDir:      la.cfg.LockDir,
		Containment:  la.cfg.Containment,
		Limits:       spec.PerWorker,
		Training:     trainingOf(spec.Spec),
		DeviceFiles:  la.devices.Files(member.Devices),
		Processes:    la.cfg.Processes,
		Interface:    la.cfg.TrainInterface,
		Bound:        la.devices.Bound(),
		Scope:        la.scopes,
		// Always: the deadline says whether the node fences, because a
		// cluster may grow beyond one node while the job runs.
		Strict:      true,
		Deadline:    la.session.deadline(),
		LearnedFile: la.learnedFile(spec),
	}
}

// learnedFile is a job's; "" where nothing of it runs ahead.
func (la *launcher) learnedFile(spec record.Submitted) string {
	if spec.ColdStart || spec.ReadyFD {
		return ""
	}
	return filepath.Join(la.cfg.DataDir, learnedDir, string(spec.ID))
}

// trainingOf is what a job's workers are told of how to make a step, with what its owner has left open.
func trainingOf(spec cluster.Spec) run.Training {
	return run.Training{
		BaseBatch: spec.BatchSize.Min, MicroBatch: spec.MicroBatch(), LogicalWorkers: spec.Training.LogicalWorkers,
		LRRule: cmp.Or(spec.Training.LRRule, cluster.LRNone), LRWarmup: spec.Training.LRWarmup,
	}
}

func (la *launcher) startShim(at loop.Lane, a agent.StartShim) {
	nonce := a.Plan.World.Nonce
	r := la.runs.newRun(at.Of, nonce, la.runDir(at.Of, nonce), agent.Starting)
	r.order = la.order(at.Of, a.Spec, a.Plan)
	r.wish.deadline = r.order.Deadline
	member, _, _ := r.order.World.Member(la.cfg.Node)
	if r.refused = la.devices.Occupied(member.Devices); r.refused != nil {
		r.shim, r.sweep.done = agent.Absent, true // as it was found to be before
		return
	}
	dir, order := r.dir, r.order
	log := la.Logger(at.Of)
	log.Info().Str("phase", "starting").Int("world", order.World.Size()).Msg("starting workers")
	la.Beside(at, func(ctx context.Context) func() {
		process, left, err := la.launch(ctx, dir, order)
		return func() {
			r.changed = time.Now()
			if err == nil {
				r.shim = agent.Live
				la.devices.Soon() // who else is on its devices
				la.shims.attend(r, process)
				return
			}
			log.Error().Err(err).Msg("cannot start the workers here")
			r.shim, r.sweep.done = agent.Absent, !left
			if left {
				r.shim = agent.Dead // to be swept, and not stopped before
			}
			r.refused = refusal(err)
		}
	})
}

// launch starts the shim, or leaves nothing; left says that it could not, and that
// the run directory is still needed to find what is left.
func (la *launcher) launch(ctx context.Context, dir string, order run.Order) (process run.Process, left bool, err error) {
	if order.LearnedFile != "" {
		if err = os.MkdirAll(filepath.Dir(order.LearnedFile), 0o700); err != nil {
			return process, false, fmt.Errorf("make the folder for what starts teach: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	process, err = shim.Start(ctx, la.cfg.Exe, dir, order)
	if err == nil {
		return process, false, nil
	}
	if swept := sweepDir(la.Context(), func() error { return sweep.Sweep(dir, order.LockDir, &order.Owner) }); swept != nil {
		return process, true, errors.Join(err, swept)
	}
	return process, false, errors.Join(err, os.RemoveAll(dir))
}

// sweep makes sure that nothing of a generation lives here. Of one without a run,
// each place is looked through in which an agent of this node has ever kept runs.
func (la *launcher) sweep(at loop.Lane) {
	r := la.runs.all[at.Of]
	if nonce := la.records.nonceOf(at.Of); r == nil || r.shim == agent.Absent && r.nonce != nonce {
		r = la.runs.newRun(at.Of, nonce, la.runDir(at.Of, nonce), agent.Absent)
	}
	dirs := []string{r.dir}
	if r.shim == agent.Absent {
		for _, root := range la.data.runDirs() {
			dirs = append(dirs, filepath.Join(root, filepath.Base(r.dir)))
		}
		slices.Sort(dirs)
		dirs = slices.Compact(dirs)
	}
	owner := la.records.ownerOf(at.Of)
	la.Beside(at, func(ctx context.Context) func() {
		var err error
		for _, dir := range dirs {
			err = errors.Join(err, sweepDir(ctx, func() error { return sweep.Sweep(dir, la.cfg.LockDir, owner) }))
		}
		sweepProblem := ""
		if err != nil {
			sweepProblem = "cannot make sure that nothing of it lives on node " + string(la.cfg.Node) + ": " + err.Error()
			sweepFailed(ctx, la.Logger(at.Of), err, "cannot sweep a run yet, trying again")
		}
		unkillable, _ := errors.AsType[*sweep.Unkillable](err)
		return func() {
			r.sweep.done, r.sweep.problem, r.sweep.unkillable, r.changed = err == nil, sweepProblem, unkillable, time.Now()
		}
	})
}

func (la *launcher) removeRun(at loop.Lane) {
	r := la.runs.all[at.Of]
	la.Beside(at, func(ctx context.Context) func() {
		if err := os.RemoveAll(r.dir); err != nil {
			log := la.Logger(at.Of)
			log.Error().Err(err).Msg("cannot remove a run's directory yet, trying again")
			loop.Rest(ctx, loop.RetryLast)
			return func() {}
		}
		return func() { la.shims.drop(at.Of) }
	})
}

// refusal is why something cannot be started here. A full disk passes, and so may what a file system says of itself.
func refusal(err error) *record.Failed {
	return &record.Failed{Kind: precheck.FailureOf(err), Reason: err.Error(), Rank: -1, At: time.Now()}
}

// sweepFailed logs why, and rests before the next try. The end of the agent, which
// cuts sweeps short, is no failure.
func sweepFailed(ctx context.Context, log zerolog.Logger, err error, msg string) {
	if ctx.Err() == nil {
		log.Error().Err(err).Msg(msg)
	}
	loop.Rest(ctx, loop.RetryLast)
}

// sweepDir waits for a sweep, but not longer than ctx: a sweep of what SIGKILL does
// not end takes longer than a lease lives, and an agent that is asked to end has to
// leave the lease to a successor, which begins the sweep again.
func sweepDir(ctx context.Context, sweep func() error) error {
	swept := make(chan error, 1)
	go func() { swept <- sweep() }()
	select {
	case err := <-swept:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
