package agent

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// OfferPatience is how long rank 0's node waits for the other members' parts of
// the last save while they neither come nor their nodes go. It delays nothing: a
// member that still digests has not stopped either, so the next generation waits
// for it anyway. It only bounds unforeseen cases.
const OfferPatience = 10 * time.Minute

// checkpoints moves what was saved on its way: digested here, recorded, merged
// on rank 0's node and offered. It reports whether nothing is still to come.
//
// Without a run there is nothing to do it with: no directory, and no memory of what
// has failed before. What had not been offered when the run was acknowledged as
// stopped was given up then, whatever other members still say.
func (p *planner) checkpoints(x part) (done bool) {
	if x.run.Shim == Absent || x.Acks.Stopped.Exists() {
		return true
	}
	done = p.ownPart(x)
	if x.rank0 {
		// Both are looked at even if one is not done: they run side by side.
		done = p.whole(x) && done
	}
	return done
}

// ownPart digests and records what this node's ranks have saved: of the newest
// steps each, as long as digests keep up, else the one that choose names, and in
// the end the newest. What was digested is recorded also if there are newer saves.
func (p *planner) ownPart(x part) (done bool) {
	pending, newest := p.pending(x)
	switch {
	case x.rank0 && x.run.Report != nil && (x.run.Plain == nil || !x.run.Plain.Final):
		done = false // the last look for plain checkpoints is still to come
	default:
		done = true
	}
	if _, recorded := x.Saved[newest]; recorded || newest < 0 {
		return done
	}
	if step, work, ok := x.unrecorded(); ok {
		if p.d.AliveRev != 0 {
			saved := work.Value
			saved.Nonce = x.Plan.World.Nonce
			p.add(WriteSaved{target: x.target, Step: step, Saved: saved, Drop: x.outlived()})
		}
		done = false
	}
	if busy(x.run.Digests) {
		return false
	}
	if len(pending) == 0 { // all that is new has been digested, or lost
		return done
	}
	d := pending[len(pending)-1]
	if x.Halt == nil && x.run.Report.Stopped == nil {
		d = choose(pending)
	}
	p.add(d)
	return false
}

// choose names the step to digest next where several are pending. Nodes that
// digest slower than their job saves choose at different times, out of different
// steps, and a checkpoint needs a step that all have chosen. So each takes the
// one that comes first in an order that is the same for all, and in which no
// pace of saving is preferred: a step that is ahead of all others around it is
// chosen by every node.
func choose(pending []Digest) Digest {
	return slices.MaxFunc(pending, func(a, b Digest) int { return bytes.Compare(order(a.Step), order(b.Step)) })
}

func order(step int64) []byte {
	sum := sha256.Sum256(strconv.AppendInt(nil, step, 10))
	return sum[:]
}

// unrecorded returns the newest step that was digested, or lost in that, and is
// not recorded yet.
func (x part) unrecorded() (step int64, work Work[record.Saved], ok bool) {
	step = newestStep(x.Saved)
	for s, w := range x.run.Digests {
		if w.Done && (w.Err == "" || w.Value.Lost != "") && s > step {
			step, work, ok = s, w, true
		}
	}
	return step, work, ok
}

// pending returns the steps, ascending, that all of this node's ranks have saved,
// or that a plain script has completed, and that are later than all that was
// digested here or offered; and the newest step of all, -1 if there is none.
func (p *planner) pending(x part) (pending []Digest, newest int64) {
	newest = -1
	if x.run.Report == nil {
		return nil, newest
	}
	done := max(newestStep(x.Saved), newestStep(x.run.Digests), x.offered())
	add := func(d Digest) {
		newest = max(newest, d.Step)
		if d.target = x.target; d.Step > done {
			pending = append(pending, d)
		}
	}
	ranks := x.member.Ranks()
	by := map[int64][]int{} // who has saved, by step
	for _, s := range x.run.Report.Saves {
		by[s.Step] = append(by[s.Step], s.Rank)
		if len(by[s.Step]) == len(ranks) && covers(by[s.Step], ranks) {
			add(Digest{Step: s.Step, Samples: s.Samples, Dir: s.Dir, Ranks: ranks})
		}
	}
	if pl := x.run.Plain; pl != nil && x.rank0 && x.plain() {
		all := make([]int, x.Plan.World.Processes())
		for i := range all {
			all[i] = i
		}
		if pl.Step >= 0 && (!pl.Whole || pl.Final && p.haltedWell(x)) {
			add(Digest{Step: x.plainStep(*pl), Dir: pl.Dir, Ranks: all, Plain: true, Samples: x.plainSamples(*pl)})
		}
	}
	slices.SortFunc(pending, func(a, b Digest) int { return cmp.Compare(a.Step, b.Step) })
	return pending, newest
}

// offered is the newest step that rank 0's node has offered; 0 or -1 = none.
func (x part) offered() int64 {
	if x.rank0 {
		return newestStep(x.Offers)
	}
	if offered := x.peer(x.Plan.World.Members[0].Node).Offered; offered > 0 {
		return offered
	}
	return -1
}

const (
	// keptSaved is how many saves of a generation a node keeps records of at most,
	// where no checkpoint becomes whole: others digest slower, and may yet come to them.
	keptSaved = 64
	// droppedAtOnce keeps a record's transaction small, whatever earlier versions have left.
	droppedAtOnce = 8
)

// outlived are the steps of this node's saves, except the newest, that are not
// needed any more: a later one has been offered, or there are too many. A generation
// may save for months, and etcd is to hold no more of it in the end than in the beginning.
func (x part) outlived() []int64 {
	offered := x.offered()
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

// plainStep is the step of a plain checkpoint. One that is all of the generation's directory does
// not say; it was saved at the end, after what the script has reported, if it has.
func (x part) plainStep(pl Plain) int64 {
	if told := x.run.Report.Progress; pl.Whole && told != nil {
		return max(pl.Step, told.Step)
	}
	return pl.Step
}

// plainSamples is where in the data a plain checkpoint is: as the script says, or
// as follows from what it reported by the SDK, since a generation's steps all
// take the same batch. -1: unknown.
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
func (p *planner) whole(x part) (done bool) {
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

// rememberedSteps is how many steps' saves are remembered of a run: half as many as
// a digest may take saves for nodes to choose the same steps.
const rememberedSteps = 128

// Remember adds the saves of a report to those known of its run, sorted by step and rank. A report holds those of a few
// steps, and a node that digests slower than its job saves chooses out of more.
func Remember(known, reported []run.Save) []run.Save {
	if len(reported) == 0 {
		return known
	}
	first := reported[0].Step
	known = slices.DeleteFunc(slices.Clone(known), func(s run.Save) bool { return s.Step >= first })
	known = append(known, reported...)
	steps := 1
	for i := len(known) - 1; i > 0; i-- {
		if known[i].Step == known[i-1].Step {
			continue
		}
		if steps++; steps > rememberedSteps {
			return known[i:]
		}
	}
	return known
}
