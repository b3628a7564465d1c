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
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
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

// saves makes what the ranks have saved durable, lists it and offers whole
// checkpoints; it looks for what plain scripts have saved. The loop owns it, and
// each piece of work goes on in its lane.
type saves struct {
	*shared
	runs      *runs
	session   *session
	tasks     *tasks
	retention *retention
	verifier  *verifier
}

// A folder is where a generation saves, and what work in it needs to know besides. The
// goroutine that does the work has this copy: the run and its order are the loop's, and
// the order changes when a prepared run gets its plan.
type folder struct {
	jg     record.JobGen
	owner  cluster.Owner
	path   string             // run.Order.Checkpoint
	resume *record.Checkpoint // what the generation resumes from; nil = nothing
}

// folder is where a run saves. Only the loop may call it.
func (r *hosted) folder() folder {
	return folder{r.jg, r.order.Owner, r.order.Checkpoint, r.order.Resume}
}

// root is where all of the job's generations save.
func (f folder) root() string { return filepath.Dir(f.path) }

// relative is a checkpoint's directory below root. It comes from the script, so
// it is not believed to lie there.
func (f folder) relative(dir string) (string, error) {
	rel, err := filepath.Rel(f.path, dir)
	if err != nil || !filepath.IsAbs(dir) || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("checkpoint in %q: save below $BELLOWS_CHECKPOINT_DIR (%s)", dir, f.path)
	}
	return filepath.Join(filepath.Base(f.path), rel), nil
}

// digest makes this node's part of a checkpoint durable and lists it.
func (sv *saves) digest(at lane, a agent.Digest) {
	r, step := sv.runs.all[at.of], a.Step
	sv.dropOld(r, step)
	r.digests[step] = agent.Work[record.Saved]{}
	in := r.folder()
	where := loss{r.dir, step, record.SavedKey(sv.cfg.Node, at.of.Job, at.of.Generation, step), sv.session.stillHere()}
	sv.beside(at, func(ctx context.Context) func() {
		begun := time.Now()
		saved, err := sv.list(ctx, in, a)
		work := agent.Work[record.Saved]{Done: true, Value: saved}
		if err != nil {
			work = lostWork(err.Error())
		}
		if in.conclusive(err) {
			work.Value.Nonce = r.nonce
			sv.keepLost(ctx, where, work.Value)
		}
		return func() {
			log := sv.logger(r.jg)
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

func (sv *saves) list(ctx context.Context, in folder, a agent.Digest) (record.Saved, error) {
	dir, err := in.relative(a.Dir)
	if err != nil {
		return record.Saved{}, err
	}
	task := dirblob.Task{Root: in.root(), Digest: &dirblob.Digest{Dir: dir, Ranks: a.Ranks, Part: a.Ranks}}
	if a.Plain {
		task.Digest.Ranks = nil
	}
	answer, err := sv.tasks.persevere(ctx, in, task)
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
func (sv *saves) merge(at lane, a agent.Merge) {
	r, step := sv.runs.all[at.of], a.Step
	r.merges[step] = agent.Work[record.Offer]{}
	in := r.folder()
	keep, known := sv.retention.kept(r)
	sv.beside(at, func(ctx context.Context) func() {
		offer, seal, err := sv.writeManifest(ctx, in, a)
		if noSpace(err) && known { // what is surplus goes; what is kept does not, whatever is lost for it
			sv.retention.clean(ctx, in, keep)
			offer, seal, err = sv.writeManifest(ctx, in, a)
		}
		return func() {
			work := agent.Work[record.Offer]{Done: true, Value: offer}
			log := sv.logger(r.jg)
			if err != nil {
				work.Err = err.Error()
				r.lose(step, err)
				log.Error().Err(err).Int64("step", step).Msg("a checkpoint is lost")
			} else {
				r.lost.why, r.lost.told, r.room.looked = "", false, time.Time{}
				sv.verifier.remember(offer.Checkpoint, seal)
				log.Info().Int64("step", step).Int64("bytes", offer.Bytes).Msg("offering a checkpoint")
			}
			r.merges[step], r.changed = work, time.Now()
		}
	})
}

// writeManifest puts together what the nodes have saved of a step. What another
// node has left of it may take a while to be visible here.
func (sv *saves) writeManifest(ctx context.Context, in folder, a agent.Merge) (offer record.Offer, seal string, err error) {
	saved := a.Parts[0]
	dir, err := in.relative(saved.Dir)
	if err != nil {
		return record.Offer{}, "", err
	}
	title := checkpoint.Title{Job: a.Job, Generation: a.Generation, Step: a.Step, WorldSize: a.WorldSize}
	task := dirblob.Task{Root: in.root(), Assemble: &dirblob.Assemble{Dir: dir, Title: title, Parts: a.Parts}}
	begun := time.Now()
	answer, err := sv.tasks.persevere(ctx, in, task)
	for errors.Is(err, checkpoint.ErrAbsent) && time.Since(begun) < unseenFor && rest(ctx, seenAgain) {
		answer, err = sv.tasks.persevere(ctx, in, task)
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
func (r *hosted) apart() string {
	member, _, ok := r.order.World.Member(r.order.Node)
	if !ok || r.report == nil {
		return ""
	}
	return savesApart(r.report.Saves, member.Ranks())
}

// savesApart takes a rank that has saved twice since the newest step that all have
// saved for one that goes its own way: where all take part in each step, none is
// ahead of another by that much.
func savesApart(saves []run.Save, ranks []int) (text string) {
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
func (sv *saves) dropOld(r *hosted, newest int64) {
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

// lose notes a checkpoint that came to nothing; the next that is whole makes up for it.
func (r *hosted) lose(step int64, err error) {
	r.lost.why = fmt.Sprintf("the checkpoint of step %d is lost: %v", step, err)
}
