package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// OfferPatience is how long rank 0's node waits for the other members' parts of
// the last save while they neither come nor their nodes go. It delays nothing: a
// member that still digests has not stopped either, so the next generation waits
// for it anyway. It only bounds what nobody has thought of.
const OfferPatience = 10 * time.Minute

// checkpoints moves what was saved on its way: digested here, recorded, merged
// on rank 0's node and offered. It reports whether nothing is still to come.
//
// Without a run there is nothing to do it with: no directory, and no memory of what
// has failed before. What had not been offered when the run was acknowledged as
// stopped was given up then, whatever other members still say.
func (p *planner) checkpoints(x part) (settled bool) {
	if x.run.Shim == Absent || x.Acks.Stopped.Exists() {
		return true
	}
	settled = p.ownPart(x)
	if x.rank0 {
		// Both are looked at even if one is unsettled: they run side by side.
		settled = p.whole(x) && settled
	}
	return settled
}

// ownPart digests and records the newest save of this node's ranks. Older ones
// are skipped: a node that digests slower than its job saves must not fall behind.
func (p *planner) ownPart(x part) (settled bool) {
	d, ok := p.newest(x)
	switch {
	case x.rank0 && x.run.Report != nil && (x.run.Plain == nil || !x.run.Plain.Final):
		settled = false // the last look for plain checkpoints is still to come
	default:
		settled = true
	}
	if !ok {
		return settled
	}
	if _, recorded := x.Saved[d.Step]; recorded {
		return settled
	}
	switch work, begun := x.run.Digests[d.Step]; {
	case !begun:
		if !busy(x.run.Digests) {
			p.add(d)
		}
		return false
	case !work.Done:
		return false
	case work.Err != "":
		return settled
	case p.d.AliveRev != 0:
		saved := work.Value
		saved.Nonce = x.Plan.World.Nonce
		p.add(WriteSaved{target: x.target, Step: d.Step, Saved: saved, Drop: x.outlived()})
	}
	return false
}

// newest returns the digest of the newest step that all of this node's ranks
// have saved, or that a plain script has completed.
func (p *planner) newest(x part) (Digest, bool) {
	d := Digest{target: x.target, Step: -1}
	if x.run.Report == nil {
		return d, false
	}
	ranks := x.member.Ranks()
	by := map[int64][]int{} // who has saved, by step
	for _, s := range x.run.Report.Saves {
		by[s.Step] = append(by[s.Step], s.Rank)
		if s.Step > d.Step && covers(by[s.Step], ranks) {
			d.Step, d.Samples, d.Dir, d.Ranks = s.Step, s.Samples, s.Dir, ranks
		}
	}
	if pl := x.run.Plain; pl != nil && x.rank0 && x.plain() {
		all := make([]int, x.Plan.World.Processes())
		for i := range all {
			all[i] = i
		}
		if pl.Step >= 0 && (!pl.Whole || pl.Final && p.haltedWell(x)) {
			d.Step, d.Dir, d.Ranks, d.Plain = pl.Step, pl.Dir, all, true
			d.Samples = x.plainSamples(*pl)
		}
	}
	return d, d.Step >= 0
}

const (
	// keptSaved is how many saves of a generation a node keeps records of at most,
	// where no checkpoint becomes whole: others digest slower, and may yet come to them.
	keptSaved = 64
	// droppedAtOnce keeps a record's transaction small, whatever earlier versions have left.
	droppedAtOnce = 8
)

// outlived are the steps of this node's saves, but for the newest, that nobody
// needs any more: a later one has been offered, or there are too many. A generation
// may save for months, and etcd is to hold no more of it in the end than in the beginning.
func (x part) outlived() []int64 {
	offered := newestStep(x.Offers)
	if !x.rank0 {
		offered = x.peer(x.Plan.World.Members[0].Node).Offered
	}
	steps := before(x.Saved, newestStep(x.Saved))
	goes := len(before(x.Saved, min(offered, newestStep(x.Saved))))
	goes = max(goes, len(steps)-keptSaved)
	return atMost(steps[:goes])
}

// before are the steps before another, ascending.
func before[T any](m map[int64]T, step int64) []int64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(s int64) bool { return s >= step })
}

func atMost(steps []int64) []int64 { return steps[:min(len(steps), droppedAtOnce)] }

// plain reports whether the script never said by the SDK that it had saved.
func (x part) plain() bool { return x.run.Report != nil && len(x.run.Report.Saves) == 0 }

// plainSamples is where in the data a plain checkpoint is: as the script says, or
// as follows from what it reported by the SDK, since a generation's steps all
// take the same batch. -1: nobody knows.
func (x part) plainSamples(pl Plain) int64 {
	told := x.run.Report.Progress
	switch {
	case pl.Samples >= 0:
		return pl.Samples
	case pl.Whole || told == nil || told.Samples < 0:
		return -1
	}
	return max(-1, told.Samples+(pl.Step-told.Step)*int64(x.Plan.World.BatchSize))
}

// haltedWell reports whether a plain script was told to stop and did so of its
// own accord: then what it left is what it saved.
func (p *planner) haltedWell(x part) bool {
	s := x.run.Report.Stopped
	if s == nil || s.SignalledAt.IsZero() {
		return false
	}
	const sigterm = 15
	return !slices.ContainsFunc(s.Exits, func(e record.Exit) bool {
		return e.Code != 0 && e.Code != 128+sigterm && e.Signal != sigterm
	})
}

// whole merges the newest step that all ranks have saved, and offers it.
func (p *planner) whole(x part) (settled bool) {
	last, offered := newestStep(x.Saved), newestStep(x.Offers)
	if last <= offered {
		return true
	}
	steps := slices.Sorted(maps.Keys(x.Saved))
	slices.Reverse(steps)
	for _, step := range steps {
		if step <= offered {
			break
		}
		work, begun := x.run.Merges[step]
		parts, complete := p.parts(x, step)
		switch {
		case begun && work.Done && work.Err != "", !complete:
			continue
		case begun && work.Done:
			if p.d.AliveRev != 0 {
				offer := work.Value
				offer.Nonce = x.Plan.World.Nonce
				p.add(WriteOffer{target: x.target, Step: step, Offer: offer, Drop: atMost(before(x.Offers, step))})
			}
		case !busy(x.run.Merges):
			p.add(Merge{target: x.target, Step: step, WorldSize: x.Plan.World.Processes(), Parts: parts})
		}
		return false
	}
	if x.run.Merges[last].Err != "" {
		return true
	}
	return x.run.Quiet >= OfferPatience || p.hopeless(x, last)
}

// parts returns what the members have saved at a step, and whether that is all of it.
func (p *planner) parts(x part, step int64) (parts []record.Saved, complete bool) {
	var have, want []int
	for _, m := range x.Plan.World.Members {
		want = append(want, m.Ranks()...)
		saved, ok := x.Saved[step]
		if m.Node != p.d.Node {
			saved, ok = x.peer(m.Node).Saved[step]
		}
		if ok {
			parts = append(parts, saved)
			have = append(have, saved.Of()...)
		}
	}
	return parts, covers(have, want)
}

// hopeless reports whether every member whose part of the step is missing has gone.
func (p *planner) hopeless(x part, step int64) bool {
	for _, m := range x.Plan.World.Members {
		if m.Node == p.d.Node {
			continue
		}
		peer := x.peer(m.Node)
		if _, ok := peer.Saved[step]; !ok && !peer.Gone {
			return false
		}
	}
	return true
}

func (g Goal) peer(n cluster.NodeID) Peer {
	if i := slices.IndexFunc(g.Peers, func(p Peer) bool { return p.Node == n }); i >= 0 {
		return g.Peers[i]
	}
	return Peer{Node: n}
}

func newestStep[T any](m map[int64]T) int64 {
	newest := int64(-1)
	for step := range m {
		newest = max(newest, step)
	}
	return newest
}

func busy[T any](m map[int64]Work[T]) bool {
	for _, w := range m {
		if !w.Done {
			return true
		}
	}
	return false
}

func covers(have, want []int) bool {
	return !slices.ContainsFunc(want, func(r int) bool { return !slices.Contains(have, r) })
}
