package host

import (
	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/record"
)

// act begins an action, unless another of its lane is in progress: then it will
// be planned again.
func (n *node) act(a agent.Action) {
	at := loop.Lane{Of: a.Of(), What: a.Lane()}
	if push, ok := a.(agent.Push); ok {
		n.shims.push(n.runs.all[a.Of()], push.Wish)
		return
	}
	if n.Busy(at) {
		return
	}
	switch a := a.(type) {
	case agent.Verify:
		n.checkpoints.verify(at, a)
	case agent.StartShim:
		n.launcher.startShim(at, a)
	case agent.PrepareShim:
		n.launcher.prepareShim(at, a)
	case agent.BindRun:
		n.launcher.bind(at, a)
	case agent.WriteReady:
		n.writer.ready(at, a)
	case agent.Push:
	case agent.WriteAck:
		log := n.Logger(at.Of)
		if failed, ok := a.Value.(record.Failed); ok {
			log.Warn().Str("kind", string(failed.Kind)).Int("rank", failed.Rank).Str("reason", failed.Reason).Msg("acknowledging a failure")
		} else {
			log.Info().Str("ack", string(a.Ack)).Msg("acknowledging")
		}
		key := record.AckKey(n.cfg.Node, at.Of.Job, at.Of.Generation, a.Ack)
		n.writer.create(at, a.String(), []record.Op{record.Put(key, a.Value)}, nil)
	case agent.WriteSaved:
		r, key := n.runs.all[at.Of], func(step int64) string {
			return record.SavedKey(n.cfg.Node, at.Of.Job, at.Of.Generation, step)
		}
		n.writer.create(at, a.String(), inPlaceOf(record.Put(key(a.Step), a.Saved), key, a.Drop), func(err error) {
			r.saves.Lose(a.Step, err)
			r.saves.Digests[a.Step] = agent.Work[record.Saved]{Done: true, Err: err.Error()}
		})
	case agent.WriteOffer:
		r, key := n.runs.all[at.Of], func(step int64) string {
			return record.OfferKey(n.cfg.Node, at.Of.Job, at.Of.Generation, step)
		}
		n.writer.create(at, a.String(), inPlaceOf(record.Put(key(a.Step), a.Offer), key, a.Drop), func(err error) {
			r.saves.Lose(a.Step, err)
			r.saves.Merges[a.Step] = agent.Work[record.Offer]{Done: true, Err: err.Error()}
		})
	case agent.Digest:
		n.checkpoints.digest(at, a)
	case agent.Merge:
		n.checkpoints.merge(at, a)
	case agent.Sweep:
		n.launcher.sweep(at)
	case agent.RemoveRun:
		n.launcher.removeRun(at)
	case agent.Forget:
		n.writer.forget(at)
	}
}
