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
func commit(in situation) *move {
	offer, ok := offer(in)
	if !ok {
		return nil
	}
	m := move{
		verb: "commit", job: in.JobView,
		ifs: []record.Compare{record.Unchanged(record.CommittedKey(in.ID), in.Committed.Mod)},
		then: []record.Op{
			record.Put(record.CommittedKey(in.ID), offer),
			record.Put(record.CheckpointKey(in.ID, offer.Step), offer),
		},
		note: Note{Job: in.ID, Gen: in.number(), Text: "checkpoint committed at step " + strconv.FormatInt(offer.Step, 10)},
	}
	old := slices.DeleteFunc(slices.Sorted(maps.Keys(in.Checkpoints)), func(step int64) bool { return step == offer.Step })
	keep := max(cmp.Or(in.cfg.KeepCheckpoints, DefaultKeepCheckpoints), LeastKeepCheckpoints)
	// More than one goes where fewer are to be kept than before: a few with each commit.
	for _, step := range old[:min(max(0, len(old)-keep+1), forgottenAtOnce)] {
		m.then = append(m.then, record.Delete(record.CheckpointKey(in.ID, step)))
	}
	for _, step := range outlived(in.job, offer, m.then) {
		if step == offer.Step && !in.rule(OnePerStep) {
			continue
		}
		m.then = append(m.then, record.Delete(record.BadCheckpointKey(in.ID, step)))
	}
	if s := in.state(); s.Pinned || s.Retries+s.RoomWaits > 0 {
		s.Pinned, s.Retries, s.RoomWaits = false, 0, 0
		m.then = append(m.then, record.Put(record.StateKey(in.ID), s))
	}
	return &m
}

// outlived returns the steps of given-up checkpoints that go with a commit: the
// one of the same step, because a step is asked for by its number, and those
// older than everything that stays in the history, a few at a time. Their files
// are deleted once they are in no record any more.
func outlived(j *job, offer record.Checkpoint, then []record.Op) []int64 {
	oldest := offer
	for step, kept := range j.Checkpoints {
		goes := slices.ContainsFunc(then, func(op record.Op) bool { return op.Delete && op.Key == record.CheckpointKey(j.ID, step) })
		if !goes && step != offer.Step && kept.Value.Before(oldest) {
			oldest = kept.Value
		}
	}
	var steps []int64
	if j.Bad[offer.Step].Exists() {
		steps = append(steps, offer.Step)
	}
	for _, step := range slices.Sorted(maps.Keys(j.Bad)) {
		if step != offer.Step && j.Bad[step].Value.Before(oldest) && len(steps) < forgottenAtOnce {
			steps = append(steps, step)
		}
	}
	return steps
}

// offer returns the newest valid offer of the generation that is newer than what is committed.
func offer(in situation) (record.Checkpoint, bool) {
	if s := in.State.Value; s.Generation == 0 || s.Generation <= s.Rewound && in.rule(Rewind) {
		return record.Checkpoint{}, false
	}
	generations := []cluster.Generation{in.number()}
	if !in.rule(CommitGeneration) {
		generations = slices.Sorted(maps.Keys(in.Generations))
	}
	var best record.Checkpoint
	found := false
	for _, g := range generations {
		world := in.Generation(g).Plan.Value.World
		if len(world.Members) == 0 {
			continue
		}
		offers := in.node(world.Members[0].Node).Offers[record.JobGen{Job: in.ID, Generation: g}]
		if in.rule(SameTimeline) {
			offers = record.Of(offers, world.Nonce)
		}
		for _, step := range slices.Sorted(maps.Keys(offers)) {
			o := offers[step].Value.Checkpoint
			if o.Generation == g && o.Step == step && o.Step >= 0 && o.WorldSize == world.Processes() &&
				o.Dir != "" && o.ManifestSHA256 != "" && (!in.Committed.Exists() || step > in.Committed.Value.Step) {
				best, found = o, true
			}
		}
	}
	return best, found
}
