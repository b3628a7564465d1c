package coordinator

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// How many committed checkpoints of a job are kept, in the records and on disk:
// by default the newest, and two to fall back to; never less than one to fall
// back to. Rank 0's agent deletes from disk what has left the history.
const (
	DefaultKeepCheckpoints = 3
	LeastKeepCheckpoints   = 2

	forgottenAtOnce = 3
)

// commit makes the newest valid offer of the job's generation its committed
// checkpoint. An offer of any other generation is never looked at: the state
// record, which names the generation, is compared.
func (c *Coordinator) commit(f formed) bool {
	offer, ok := c.offer(f)
	if !ok {
		return false
	}
	m := move{
		verb: "commit", job: f.JobView,
		ifs: []record.Compare{record.Unchanged(record.CommittedKey(f.ID), f.Committed.Mod)},
		then: []record.Op{
			record.Put(record.CommittedKey(f.ID), offer),
			record.Put(record.CheckpointKey(f.ID, offer.Step), offer),
		},
		note: Note{Job: f.ID, Gen: f.number(), Text: "checkpoint committed at step " + strconv.FormatInt(offer.Step, 10)},
	}
	old := slices.DeleteFunc(slices.Sorted(maps.Keys(f.Checkpoints)), func(step int64) bool { return step == offer.Step })
	keep := max(cmp.Or(c.cfg.KeepCheckpoints, DefaultKeepCheckpoints), LeastKeepCheckpoints)
	// More than one goes where fewer are to be kept than before: a few with each commit.
	for _, step := range old[:min(max(0, len(old)-keep+1), forgottenAtOnce)] {
		m.then = append(m.then, record.Delete(record.CheckpointKey(f.ID, step)))
	}
	for _, step := range outlived(f, offer, m.then) {
		if step == offer.Step && !c.rule(OnePerStep) {
			continue
		}
		m.then = append(m.then, record.Delete(record.BadCheckpointKey(f.ID, step)))
	}
	if s := f.state(); s.Pinned || s.Retries+s.RoomWaits > 0 {
		s.Pinned, s.Retries, s.RoomWaits = false, 0, 0
		m.then = append(m.then, record.Put(record.StateKey(f.ID), s))
	}
	return c.send(m)
}

// outlived returns the steps of given-up checkpoints that go with a commit: the
// one of the same step, because a step is asked for by its number, and those
// older than everything that stays in the history, a few at a time. Their files
// are deleted once they are in no record any more.
func outlived(f formed, offer record.Checkpoint, then []record.Op) []int64 {
	oldest := offer
	for step, kept := range f.Checkpoints {
		goes := slices.ContainsFunc(then, func(op record.Op) bool { return op.Delete && op.Key == record.CheckpointKey(f.ID, step) })
		if !goes && step != offer.Step && kept.Value.Before(oldest) {
			oldest = kept.Value
		}
	}
	var steps []int64
	if f.Bad[offer.Step].Exists() {
		steps = append(steps, offer.Step)
	}
	for _, step := range slices.Sorted(maps.Keys(f.Bad)) {
		if step != offer.Step && f.Bad[step].Value.Before(oldest) && len(steps) < forgottenAtOnce {
			steps = append(steps, step)
		}
	}
	return steps
}

// offer returns the newest valid offer of the generation that is newer than what is committed.
func (c *Coordinator) offer(f formed) (record.Checkpoint, bool) {
	if s := f.State.Value; s.Generation == 0 || s.Generation <= s.Rewound && c.rule(Rewind) {
		return record.Checkpoint{}, false
	}
	generations := []cluster.Generation{f.number()}
	if !c.rule(CommitGeneration) {
		generations = slices.Sorted(maps.Keys(f.Generations))
	}
	var best record.Checkpoint
	found := false
	for _, g := range generations {
		world := f.Generation(g).Plan.Value.World
		if len(world.Members) == 0 {
			continue
		}
		offers := c.mirror.Node(world.Members[0].Node).Offers[record.JobGen{Job: f.ID, Generation: g}]
		if c.rule(SameTimeline) {
			offers = record.Of(offers, world.Nonce)
		}
		for _, step := range slices.Sorted(maps.Keys(offers)) {
			o := offers[step].Value.Checkpoint
			if o.Generation == g && o.Step == step && o.Step >= 0 && o.WorldSize == world.Processes() &&
				o.Dir != "" && o.ManifestSHA256 != "" && (!f.Committed.Exists() || step > f.Committed.Value.Step) {
				best, found = o, true
			}
		}
	}
	return best, found
}
