package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/record"
)

const (
	// taskBound is how long work on one checkpoint may take. A terabyte on a disk
	// of 1 GB/s takes twenty minutes; what takes longer hangs.
	taskBound = 30 * time.Minute
	// lookEvery is how often a plain script's directory is looked at while it runs.
	lookEvery = 2 * time.Second
	// lookBound is how long one look may take.
	lookBound = time.Minute
	// lookAgain is for how long the last look, on which a save may hang, is tried
	// again where it fails: network file systems have moments at which they do.
	lookAgain = 20 * time.Second
)

// root is where a job's generations save.
func (r *run) root() string { return filepath.Dir(r.order.Checkpoint) }

// relative is a checkpoint's directory below root. It comes from the script, so
// it is not believed to lie there.
func (r *run) relative(dir string) (string, error) {
	rel, err := filepath.Rel(r.order.Checkpoint, dir)
	if err != nil || !filepath.IsAbs(dir) || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("checkpoint in %q: save below $BELLOWS_CHECKPOINT_DIR (%s)", dir, r.order.Checkpoint)
	}
	return filepath.Join(filepath.Base(r.order.Checkpoint), rel), nil
}

// digest makes this node's part of a checkpoint durable and lists it.
func (n *node) digest(at lane, a agent.Digest) {
	r, step := n.runs[at.of], a.Step
	n.dropOld(r, step)
	r.digests[step] = agent.Work[record.Saved]{}
	where := loss{r.dir, step, record.SavedKey(n.cfg.Node, at.of.Job, at.of.Generation, step), n.stillHere()}
	n.beside(at, func(ctx context.Context) func() {
		begun := time.Now()
		saved, err := n.list(ctx, r, a)
		work := agent.Work[record.Saved]{Done: true, Value: saved}
		if err != nil {
			work = lostWork(err.Error())
		}
		if n.conclusive(r, err) {
			work.Value.Nonce = r.nonce
			n.keepLost(ctx, where, work.Value)
		}
		return func() {
			log := n.logger(r.jg)
			if err != nil {
				r.lose(step, err)
				log.Error().Err(err).Int64("step", step).Msg("a checkpoint is lost")
			} else {
				count := len(saved.Files)
				if saved.Part != nil {
					count = saved.Part.Files
				}
				log.Info().Int64("step", step).Int("files", count).Dur("took", time.Since(begun)).Msg("digested a checkpoint")
			}
			r.digests[step], r.changed = work, time.Now()
		}
	})
}

func (n *node) list(ctx context.Context, r *run, a agent.Digest) (record.Saved, error) {
	dir, err := r.relative(a.Dir)
	if err != nil {
		return record.Saved{}, err
	}
	task := dirblob.Task{Root: r.root(), Digest: &dirblob.Digest{Dir: dir, Ranks: a.Ranks, Part: a.Ranks}}
	if a.Plain {
		task.Digest.Ranks = nil
	}
	answer, err := n.do(ctx, r, task, taskBound)
	if err != nil {
		return record.Saved{}, fmt.Errorf("digest step %d: %w", a.Step, err)
	}
	saved := record.Saved{Dir: a.Dir, Samples: a.Samples, Part: answer.Part, Changed: answer.Changed, At: time.Now()}
	if saved.Part == nil {
		saved.Ranks, saved.Files = a.Ranks, answer.Files
	}
	return saved, nil
}

// merge writes the manifest of a checkpoint, after which it can be offered.
func (n *node) merge(at lane, a agent.Merge) {
	r, step := n.runs[at.of], a.Step
	r.merges[step] = agent.Work[record.Offer]{}
	keep, known := n.kept(r)
	n.beside(at, func(ctx context.Context) func() {
		offer, seal, err := n.writeManifest(ctx, r, a)
		if noSpace(err) && known { // what is surplus goes; what is kept does not, whatever is lost for it
			n.clean(ctx, r, keep)
			offer, seal, err = n.writeManifest(ctx, r, a)
		}
		return func() {
			work := agent.Work[record.Offer]{Done: true, Value: offer}
			log := n.logger(r.jg)
			if err != nil {
				work.Err = err.Error()
				r.lose(step, err)
				log.Error().Err(err).Int64("step", step).Msg("a checkpoint is lost")
			} else {
				r.lost, r.lostTold, r.roomSeen = "", false, time.Time{}
				n.remember(offer.Checkpoint, seal)
				log.Info().Int64("step", step).Int64("bytes", offer.Bytes).Msg("offering a checkpoint")
			}
			r.merges[step], r.changed = work, time.Now()
		}
	})
}

// writeManifest puts together what the nodes have saved of a step. What another
// node has left of it may take a while to be visible here.
func (n *node) writeManifest(ctx context.Context, r *run, a agent.Merge) (offer record.Offer, seal string, err error) {
	saved := a.Parts[0]
	dir, err := r.relative(saved.Dir)
	if err != nil {
		return record.Offer{}, "", err
	}
	title := checkpoint.Title{Job: a.Job, Generation: a.Generation, Step: a.Step, WorldSize: a.WorldSize}
	task := dirblob.Task{Root: r.root(), Assemble: &dirblob.Assemble{Dir: dir, Title: title, Parts: a.Parts}}
	begun := time.Now()
	answer, err := n.do(ctx, r, task, taskBound)
	for errors.Is(err, checkpoint.ErrAbsent) && time.Since(begun) < unseenFor && rest(ctx, seenAgain) {
		answer, err = n.do(ctx, r, task, taskBound)
	}
	if err != nil {
		return record.Offer{}, "", fmt.Errorf("merge step %d: %w", a.Step, err)
	}
	return record.Offer{At: time.Now(), Checkpoint: record.Checkpoint{
		Generation: a.Generation, Step: a.Step, Samples: saved.Samples, Dir: saved.Dir,
		ManifestSHA256: answer.ManifestSHA256, WorldSize: a.WorldSize, Bytes: answer.Bytes,
	}}, answer.Seal, nil
}

// apart says so where ranks here save at different steps, or some not at all, of
// which no checkpoint ever comes; "" if they do not.
func (r *run) apart() string {
	member, _, ok := r.order.World.Member(r.order.Node)
	if !ok || r.report == nil {
		return ""
	}
	return savesApart(r.report.Saves, member.Ranks())
}

// savesApart takes a rank that has saved twice since the newest step that all have
// saved for one that goes its own way: where all take part in each step, none is
// ahead of another by that much.
func savesApart(saves []shim.Save, ranks []int) (text string) {
	by := map[int64][]int{} // who has saved, by step
	for _, s := range saves {
		by[s.Step] = append(by[s.Step], s.Rank)
	}
	alone := map[int]int{} // how many steps a rank has saved since
	for _, step := range slices.Sorted(maps.Keys(by)) {
		missing := slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return slices.Contains(by[step], rank) })
		if len(missing) == 0 {
			clear(alone)
			text = ""
			continue
		}
		for _, rank := range by[step] {
			if alone[rank]++; alone[rank] > 1 && text == "" {
				text = fmt.Sprintf("rank %d saves steps that rank %d does not: no checkpoint counts until every rank calls bellows.save at the same step",
					rank, missing[0])
			}
		}
	}
	return text
}

// keptWork is how many steps' results a run keeps: only the newest ones matter.
const keptWork = 16

// dropOld bounds what is remembered of a long run's saves.
func (n *node) dropOld(r *run, newest int64) {
	for step, work := range r.digests {
		if len(r.digests) > keptWork && work.Done && step < newest {
			delete(r.digests, step)
		}
	}
	for step, work := range r.merges {
		if len(r.merges) > keptWork && work.Done && step < newest {
			delete(r.merges, step)
		}
	}
}

// lookForPlain looks where plain scripts save: now and then while they run, and
// once more when they have ended. Scripts with the SDK say so themselves.
func (n *node) lookForPlain() {
	for _, r := range n.runs {
		if r.looking || r.report == nil {
			continue
		}
		if members := r.order.World.Members; len(members) == 0 || members[0].Node != n.cfg.Node {
			continue
		}
		_, doomed := r.survivors()
		ended := r.report.Stopped != nil || r.shim == agent.Dead && r.swept || doomed
		switch {
		case r.plain != nil && r.plain.Final:
			continue
		case len(r.report.Saves) > 0 || len(r.report.Workers) == 0:
			if ended {
				r.plain = &agent.Plain{Final: true, Step: -1}
			}
			continue
		case !ended && r.shim != agent.Live, (!ended || !r.unseen.IsZero()) && time.Since(r.looked) < lookEvery:
			continue
		}
		n.look(r, ended)
	}
}

// cannotLook notes how a look for plain checkpoints has ended, and reports whether
// it is worth another.
func (n *node) cannotLook(r *run, err error) (again bool) {
	if err == nil {
		r.unseen = time.Time{}
		return false
	}
	log := n.logger(r.jg)
	log.Error().Err(err).Msg("cannot look for plain checkpoints")
	if r.unseen.IsZero() {
		r.unseen = time.Now()
	}
	if errors.Is(err, owned.ErrForeign) { // told at once: the script goes on saving in vain
		r.lost = fmt.Sprintf("nothing that it saves is kept: %v", err)
	}
	if time.Since(r.unseen) < lookAgain {
		return true
	}
	r.lost = fmt.Sprintf("nobody knows what it saved last: %v", err)
	return false
}

func (n *node) look(r *run, final bool) {
	r.looking, r.looked = true, time.Now()
	search := &checkpoint.Search{Dir: filepath.Base(r.order.Checkpoint), Since: -1, Ended: final}
	if r.order.Resume != nil {
		search.Since = r.order.Resume.Step
	}
	n.wg.Go(func() {
		answer, err := n.do(n.ctx, r, dirblob.Task{Root: r.root(), Find: search}, lookBound)
		n.post(func() {
			r.looking = false
			found := &agent.Plain{Final: final, Step: -1}
			if p := answer.Plain; p != nil {
				found.Step, found.Samples, found.Whole, found.Dir = p.Step, p.Samples, p.Whole, filepath.Join(r.root(), p.Dir)
			}
			if again := n.cannotLook(r, err); again && final {
				return
			}
			if r.plain == nil || *r.plain != *found {
				r.changed = time.Now()
			}
			r.plain = found
		})
	})
}
