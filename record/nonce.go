package record

import (
	"maps"

	"github.com/bellows-ml/bellows/cluster"
)

// Generations of a job are counted, and the count is in etcd: when that is restored
// from a backup, numbers come again that have been given before. What nodes have
// said of the generations of the lost timeline may still be there, or come yet,
// from a write that was under way. So each plan has a nonce, and nodes write with
// everything that they say of a generation which one they mean.

// Of returns the acknowledgements of the generation with this nonce.
func (a Acks) Of(nonce string) Acks {
	return Acks{
		Started: only(a.Started, nonce), Held: only(a.Held, nonce),
		Failed: only(a.Failed, nonce), Stopped: only(a.Stopped, nonce), Cleared: only(a.Cleared, nonce),
	}
}

// Of returns what was said, by step, of the generation with this nonce.
func Of[T said](m map[int64]Versioned[T], nonce string) map[int64]Versioned[T] {
	own := maps.Clone(m)
	maps.DeleteFunc(own, func(_ int64, v Versioned[T]) bool { return v.Value.of() != nonce })
	return own
}

// said is what a node says of one generation.
type said interface{ of() (nonce string) }

func (s Started) of() string { return s.Nonce }
func (h Held) of() string    { return h.Nonce }
func (f Failed) of() string  { return f.Nonce }
func (s Stopped) of() string { return s.Nonce }
func (c Cleared) of() string { return c.Nonce }
func (s Saved) of() string   { return s.Nonce }
func (o Offer) of() string   { return o.Nonce }

func only[T said](v Versioned[T], nonce string) Versioned[T] {
	if v.Value.of() != nonce {
		return Versioned[T]{}
	}
	return v
}

// Ack returns the node's acknowledgements of a generation, empty ones if there
// are none. The nonce is that of the generation's plan.
func (v *NodeView) Ack(j cluster.JobID, g cluster.Generation, nonce string) Acks {
	if a := v.Acks[JobGen{j, g}]; a != nil {
		return a.Of(nonce)
	}
	return Acks{}
}

// Reported returns how far a generation's ranks on this node have come, false if
// they have said nothing: by the progress record, or by what they said last.
func (v *NodeView) Reported(j cluster.JobID, g cluster.Generation, nonce string) (p JobProgress, ok bool) {
	if p, ok = v.Progress.Value.Jobs[j]; ok && (p.Generation != g || p.Nonce != nonce) {
		p, ok = JobProgress{}, false
	}
	if last := v.Ack(j, g, nonce).Stopped.Value.Progress; last != nil && (!ok || last.Step >= p.Step) {
		p, ok = *last, true
	}
	return p, ok
}
