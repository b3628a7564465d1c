package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/record"
)

// startBound is how long a shim may take to be ready: it only reads its order
// and opens its sockets before that.
const startBound = 30 * time.Second

// act begins an action, unless another of its lane is under way: then it will
// be planned again.
func (n *node) act(a agent.Action) {
	at := lane{a.Of(), a.Lane()}
	if push, ok := a.(agent.Push); ok {
		n.push(n.runs[a.Of()], push.Wish)
		return
	}
	if n.lanes[at] {
		return
	}
	switch a := a.(type) {
	case agent.Verify:
		n.verify(at, a)
	case agent.StartShim:
		n.startShim(at, a)
	case agent.Push:
	case agent.WriteAck:
		log := n.logger(at.of)
		if failed, ok := a.Value.(record.Failed); ok {
			log.Warn().Str("kind", string(failed.Kind)).Int("rank", failed.Rank).Str("reason", failed.Reason).Msg("acknowledging a failure")
		} else {
			log.Info().Str("ack", string(a.Ack)).Msg("acknowledging")
		}
		key := record.AckKey(n.cfg.Node, at.of.Job, at.of.Generation, a.Ack)
		n.create(at, a.String(), []record.Op{record.Put(key, a.Value)}, nil)
	case agent.WriteSaved:
		r, key := n.runs[at.of], func(step int64) string {
			return record.SavedKey(n.cfg.Node, at.of.Job, at.of.Generation, step)
		}
		n.create(at, a.String(), inPlaceOf(record.Put(key(a.Step), a.Saved), key, a.Drop), func(err error) {
			r.lose(a.Step, err)
			r.digests[a.Step] = agent.Work[record.Saved]{Done: true, Err: err.Error()}
		})
	case agent.WriteOffer:
		r, key := n.runs[at.of], func(step int64) string {
			return record.OfferKey(n.cfg.Node, at.of.Job, at.of.Generation, step)
		}
		n.create(at, a.String(), inPlaceOf(record.Put(key(a.Step), a.Offer), key, a.Drop), func(err error) {
			r.lose(a.Step, err)
			r.merges[a.Step] = agent.Work[record.Offer]{Done: true, Err: err.Error()}
		})
	case agent.Digest:
		n.digest(at, a)
	case agent.Merge:
		n.merge(at, a)
	case agent.Sweep:
		n.sweep(at)
	case agent.RemoveRun:
		n.removeRun(at)
	case agent.Forget:
		n.forget(at)
	}
}

// beside runs f in a goroutine of its own; what it returns is done by the owner
// once it has ended, and the lane is free again then.
func (n *node) beside(at lane, f func(ctx context.Context) (then func())) {
	n.lanes[at] = true
	n.wg.Go(func() {
		then := f(n.ctx)
		n.post(func() {
			delete(n.lanes, at)
			then()
		})
	})
}

// order is what the shim needs to know to carry out a plan.
func (n *node) order(jg record.JobGen, spec record.Submitted, plan record.Plan) shim.Order {
	member, _, _ := plan.World.Member(n.cfg.Node)
	return shim.Order{
		Version: shim.ProtocolVersion, Cluster: n.cluster, Node: n.cfg.Node,
		World: plan.World, Owner: spec.Owner,
		Command: spec.Command, Workdir: spec.Workdir, Env: spec.Env, EnvFile: spec.EnvFile,
		Checkpoint:   filepath.Join(spec.CheckpointDir, string(jg.Job), checkpoint.GenerationDir(jg.Generation, plan.World.Nonce)),
		Resume:       plan.Resume,
		RestartCount: int(jg.Generation) - 1, //nolint:gosec // counted from 1 by people's patience
		LogDir:       filepath.Join(n.cfg.logDir(), string(jg.Job), checkpoint.GenerationDir(jg.Generation, "")),
		LogMaxBytes:  n.cfg.LogBytes,
		LockDir:      n.cfg.LockDir,
		Containment:  n.cfg.Containment,
		Limits:       spec.PerWorker,
		DeviceFiles:  n.files.of(member.Devices),
		Processes:    n.cfg.Processes,
		NoNewPrivs:   spec.NoNewPrivs,
		Interface:    n.cfg.TrainInterface,
		Bound:        n.train.bound,
		Scope:        n.scopes,
		// Always: whether the node fences is told by the deadline, because a
		// cluster may grow beyond one node while the job runs.
		Strict:   true,
		Deadline: n.deadline(),
	}
}

func (n *node) startShim(at lane, a agent.StartShim) {
	nonce := a.Plan.World.Nonce
	r := n.newRun(at.of, nonce, n.runDir(at.of, nonce), agent.Starting)
	r.order = n.order(at.of, a.Spec, a.Plan)
	r.deadline = r.order.Deadline
	member, _, _ := r.order.World.Member(n.cfg.Node)
	if r.refused = n.occupied(member.Devices); r.refused != nil {
		r.shim, r.swept = agent.Absent, true // as it was found to be before
		return
	}
	dir, order := r.dir, r.order
	log := n.logger(at.of)
	log.Info().Str("phase", "starting").Int("world", order.World.Size()).Msg("starting workers")
	n.beside(at, func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, startBound)
		defer cancel()
		process, left, err := n.launch(ctx, dir, order)
		return func() {
			r.changed = time.Now()
			if err == nil {
				r.shim = agent.Live
				n.lookSoon() // who else is on its devices
				n.attend(r, process)
				return
			}
			log.Error().Err(err).Msg("cannot start the workers here")
			r.shim, r.swept = agent.Absent, !left
			if left {
				r.shim = agent.Dead // to be swept, and not stopped before
			}
			r.refused = refusal(err)
		}
	})
}

// launch starts the shim, or leaves nothing; left says that it could not, and that
// the run directory is still needed to find what is left.
func (n *node) launch(ctx context.Context, dir string, order shim.Order) (process shim.Process, left bool, err error) {
	process, err = shim.Start(ctx, n.cfg.Exe, dir, order)
	if err == nil {
		return process, false, nil
	}
	if swept := shim.Sweep(dir, order.LockDir); swept != nil {
		return process, true, errors.Join(err, swept)
	}
	return process, false, errors.Join(err, os.RemoveAll(dir))
}

// sweep makes sure that nothing of a generation lives here. Of one without a run,
// each place is looked through in which an agent of this node has ever kept runs.
func (n *node) sweep(at lane) {
	r := n.runs[at.of]
	if nonce := n.planOf(at.of).Value.World.Nonce; r == nil || r.shim == agent.Absent && r.nonce != nonce {
		r = n.newRun(at.of, nonce, n.runDir(at.of, nonce), agent.Absent)
	}
	dirs := []string{r.dir}
	if r.shim == agent.Absent {
		for _, root := range n.data.runDirs() {
			dirs = append(dirs, filepath.Join(root, filepath.Base(r.dir)))
		}
		slices.Sort(dirs)
		dirs = slices.Compact(dirs)
	}
	n.beside(at, func(ctx context.Context) func() {
		var err error
		for _, dir := range dirs {
			err = errors.Join(err, shim.Sweep(dir, n.cfg.LockDir))
		}
		unswept := ""
		if err != nil {
			unswept = "cannot make sure that nothing of it lives on node " + string(n.cfg.Node) + ": " + err.Error()
			log := n.logger(at.of)
			log.Error().Err(err).Msg("cannot sweep a run yet, trying again")
			rest(ctx, retryLast)
		}
		undead, _ := errors.AsType[*shim.Unkillable](err)
		return func() { r.swept, r.unswept, r.undead, r.changed = err == nil, unswept, undead, time.Now() }
	})
}

func (n *node) removeRun(at lane) {
	r := n.runs[at.of]
	n.beside(at, func(ctx context.Context) func() {
		if err := os.RemoveAll(r.dir); err != nil {
			log := n.logger(at.of)
			log.Error().Err(err).Msg("cannot remove a run's directory yet, trying again")
			rest(ctx, retryLast)
			return func() {}
		}
		return func() { n.drop(at.of) }
	})
}
