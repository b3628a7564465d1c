package saves

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
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
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

// Config is what the work with checkpoints needs to know of the node.
type Config struct {
	Node      cluster.NodeID
	Exe       string        // the program whose `internal digest` command is run
	LookEvery time.Duration // how often the room for checkpoints is looked at
}

// Saves works on the checkpoints of a node's jobs. The loop owns it, but for Tasks.
type Saves struct {
	*loop.Loop
	Tasks *Tasks

	cfg    Config
	store  *store.Store
	proofs []proof // of checkpoints known to be sound, the newest last
}

// New returns what works on the checkpoints of a node's jobs.
func New(l *loop.Loop, cfg Config, s *store.Store) *Saves {
	return &Saves{Loop: l, Tasks: &Tasks{Loop: l, exe: cfg.Exe}, cfg: cfg, store: s}
}

// Run is what is being done with what one generation saves here.
type Run struct {
	Digests map[int64]agent.Work[record.Saved] // by step
	Merges  map[int64]agent.Work[record.Offer]
	Found   *agent.Plain // what a plain script has saved; nil = it was not looked for yet
	Lost    string       // why the newest checkpoint came to nothing; "" = it did not
	Told    bool         // Lost is written down as an event
	Short   string       // why the next checkpoint may not fit; "" = it does
	Changed time.Time    // when anything of this last changed; zero = never

	looking  bool              // for what a plain script has saved
	began    time.Time         // when the last such look began
	failing  time.Time         // since when these looks have failed; zero = the last one did not
	retained checkpoint.Retain // what was last to be kept of the checkpoints
	asked    time.Time         // when it was last asked how much room there is
}

// NewRun is a generation that has saved nothing yet.
func NewRun() *Run {
	return &Run{Digests: map[int64]agent.Work[record.Saved]{}, Merges: map[int64]agent.Work[record.Offer]{}}
}

// Generation is a generation on this node, as it is known at this moment.
type Generation struct {
	Of     record.JobGen
	Nonce  string
	Dir    string // the run directory
	Order  run.Order
	Report *run.Report // of its shim; nil = none yet
	Live   bool        // its shim lives
	Ended  bool        // nothing of it saves any more
	Job    *record.JobView
	Listed bool           // the job's checkpoints are listed in Job
	Here   record.Compare // guards what is written: this life of the node
}

// leads reports whether rank 0 of the generation is on this node.
func (sv *Saves) leads(g Generation) bool { return g.Order.World.LedBy(sv.cfg.Node) }

// Look begins what is due for a generation: the look for what a plain script has saved, the deletion of what is surplus, and
// the look whether the next checkpoint will fit.
func (sv *Saves) Look(r *Run, g Generation) {
	sv.lookForPlain(r, g)
	sv.deleteSurplus(r, g)
	sv.watchRoom(r, g)
}

// A Folder is where a generation saves, and what work in it needs to know besides. The
// goroutine that does the work has this copy: the run and its order are the loop's, and
// the order changes when a prepared run gets its plan.
type Folder struct {
	Of     record.JobGen
	Owner  cluster.Owner
	Path   string             // run.Order.Checkpoint
	Resume *record.Checkpoint // what the generation resumes from; nil = nothing
}

func (g Generation) folder() Folder {
	return Folder{g.Of, g.Order.Owner, g.Order.Checkpoint, g.Order.Resume}
}

// Root is where all of the job's generations save.
func (f Folder) Root() string { return filepath.Dir(f.Path) }

// relative is a checkpoint's directory below root. It comes from the script, so
// it is not believed to lie there.
func (f Folder) relative(dir string) (string, error) {
	rel, err := filepath.Rel(f.Path, dir)
	if err != nil || !filepath.IsAbs(dir) || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("checkpoint in %q: save below $BELLOWS_CHECKPOINT_DIR (%s)", dir, f.Path)
	}
	return filepath.Join(filepath.Base(f.Path), rel), nil
}

// Digest makes this node's part of a checkpoint durable and lists it.
func (sv *Saves) Digest(at loop.Lane, r *Run, g Generation, a agent.Digest) {
	step := a.Step
	r.dropOld(step)
	r.Digests[step] = agent.Work[record.Saved]{}
	in := g.folder()
	where := loss{g.Dir, step, record.SavedKey(sv.cfg.Node, g.Of.Job, g.Of.Generation, step), g.Here}
	sv.Beside(at, func(ctx context.Context) func() {
		begun := time.Now()
		saved, err := sv.list(ctx, in, a)
		work := agent.Work[record.Saved]{Done: true, Value: saved}
		if err != nil {
			work = lostWork(err.Error())
		}
		if in.conclusive(err) {
			work.Value.Nonce = g.Nonce
			sv.keepLost(ctx, where, work.Value)
		}
		return func() {
			log := sv.Logger(g.Of)
			if err != nil {
				r.Lose(step, err)
				log.Error().Err(err).Int64("step", step).Msg("a checkpoint is lost")
			} else {
				count := len(saved.Files)
				if saved.Part != nil {
					count = saved.Part.Files
				}
				log.Info().Int64("step", step).Int("files", count).Dur("took", time.Since(begun)).Msg("digested a checkpoint")
			}
			r.Digests[step], r.Changed = work, time.Now()
		}
	})
}

func (sv *Saves) list(ctx context.Context, in Folder, a agent.Digest) (record.Saved, error) {
	dir, err := in.relative(a.Dir)
	if err != nil {
		return record.Saved{}, err
	}
	task := dirblob.Task{Root: in.Root(), Digest: &dirblob.Digest{Dir: dir, Ranks: a.Ranks, Part: a.Ranks}}
	if a.Plain {
		task.Digest.Ranks = nil
	}
	answer, err := sv.Tasks.persevere(ctx, in, task)
	if err != nil {
		return record.Saved{}, fmt.Errorf("digest step %d: %w", a.Step, err)
	}
	saved := record.Saved{Dir: a.Dir, Samples: a.Samples, Part: answer.Part, Changed: answer.Changed, At: time.Now()}
	if saved.Part == nil {
		saved.Ranks, saved.Files = a.Ranks, answer.Files
	}
	return saved, nil
}

// Merge writes the manifest of a checkpoint, after which it can be offered.
func (sv *Saves) Merge(at loop.Lane, r *Run, g Generation, a agent.Merge) {
	step := a.Step
	r.Merges[step] = agent.Work[record.Offer]{}
	in := g.folder()
	keep, known := sv.kept(g)
	sv.Beside(at, func(ctx context.Context) func() {
		offer, seal, err := sv.writeManifest(ctx, in, a)
		if precheck.FailureOf(err) == record.NoSpace && known { // what is surplus goes; what is kept does not, whatever is lost for it
			sv.clean(ctx, in, keep)
			offer, seal, err = sv.writeManifest(ctx, in, a)
		}
		return func() {
			work := agent.Work[record.Offer]{Done: true, Value: offer}
			log := sv.Logger(g.Of)
			if err != nil {
				work.Err = err.Error()
				r.Lose(step, err)
				log.Error().Err(err).Int64("step", step).Msg("a checkpoint is lost")
			} else {
				r.Lost, r.Told, r.asked = "", false, time.Time{}
				sv.remember(offer.Checkpoint, seal)
				log.Info().Int64("step", step).Int64("bytes", offer.Bytes).Msg("offering a checkpoint")
			}
			r.Merges[step], r.Changed = work, time.Now()
		}
	})
}

// writeManifest puts together what the nodes have saved of a step. What another
// node has left of it may take a while to be visible here.
func (sv *Saves) writeManifest(ctx context.Context, in Folder, a agent.Merge) (offer record.Offer, seal string, err error) {
	saved := a.Parts[0]
	dir, err := in.relative(saved.Dir)
	if err != nil {
		return record.Offer{}, "", err
	}
	title := checkpoint.Title{Job: a.Job, Generation: a.Generation, Step: a.Step, WorldSize: a.WorldSize}
	task := dirblob.Task{Root: in.Root(), Assemble: &dirblob.Assemble{Dir: dir, Title: title, Parts: a.Parts}}
	begun := time.Now()
	answer, err := sv.Tasks.persevere(ctx, in, task)
	for errors.Is(err, checkpoint.ErrAbsent) && time.Since(begun) < unseenFor && loop.Rest(ctx, seenAgain) {
		answer, err = sv.Tasks.persevere(ctx, in, task)
	}
	if err != nil {
		return record.Offer{}, "", fmt.Errorf("merge step %d: %w", a.Step, err)
	}
	return record.Offer{At: time.Now(), Checkpoint: record.Checkpoint{
		Generation: a.Generation, Step: a.Step, Samples: saved.Samples, Dir: saved.Dir,
		ManifestSHA256: answer.ManifestSHA256, WorldSize: a.WorldSize, Bytes: answer.Bytes,
	}}, answer.Seal, nil
}

// Apart says so where ranks of a node save at different steps, or some not at all, of
// which no checkpoint ever comes; "" if they do not.
func Apart(o run.Order, report *run.Report) string {
	member, _, ok := o.World.Member(o.Node)
	if !ok || report == nil {
		return ""
	}
	return savesApart(report.Saves, member.Ranks())
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
func (r *Run) dropOld(newest int64) {
	for step, work := range r.Digests {
		if len(r.Digests) > keptWork && work.Done && step < newest {
			delete(r.Digests, step)
		}
	}
	for step, work := range r.Merges {
		if len(r.Merges) > keptWork && work.Done && step < newest {
			delete(r.Merges, step)
		}
	}
}

// Lose notes a checkpoint that came to nothing; the next that is whole makes up for it.
func (r *Run) Lose(step int64, err error) {
	r.Lost = fmt.Sprintf("the checkpoint of step %d is lost: %v", step, err)
}
