package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/record"
)

const (
	// unseenFor is how long a checkpoint may be out of sight: what network file
	// systems remember of a directory is at most a minute old. The leader allows
	// for it, and for the reading.
	unseenFor = time.Minute
	// seenAgain is how often it is looked for meanwhile.
	seenAgain = 2 * time.Second
	// keptProofs is how many checkpoints are remembered to be sound.
	keptProofs = 64
	// proofHolds is how long for: as long as a rescale takes, and a few failed
	// starts. What a disk does to a file changes nothing that the file system
	// knows of it; it is found when the file is read.
	proofHolds = 10 * time.Minute
)

// proof says that this process has digested or read a checkpoint as a whole, and
// what the file system said of its files then.
type proof struct {
	dir, manifestSHA256 string
	seal                string
	at                  time.Time
}

func (p proof) of(c record.Checkpoint) bool {
	return p.dir == c.Dir && p.manifestSHA256 == c.ManifestSHA256
}

// verifier verifies the checkpoints that generations resume from, and remembers
// which are known to be sound. The loop owns it.
type verifier struct {
	*shared
	runs      *runs
	tasks     *tasks
	retention *retention
	order     func(record.JobGen, record.Submitted, record.Plan) run.Order

	proofs []proof // of checkpoints known to be sound, the newest last
}

// remember notes that a checkpoint is sound as long as its seal is not broken,
// so that who digested it a moment ago need not read it again to resume from it.
func (ve *verifier) remember(c record.Checkpoint, seal string) {
	ve.proofs = slices.DeleteFunc(ve.proofs, func(p proof) bool { return p.of(c) })
	if seal != "" {
		ve.proofs = append(ve.proofs, proof{c.Dir, c.ManifestSHA256, seal, time.Now()})
	}
	ve.proofs = ve.proofs[max(0, len(ve.proofs)-keptProofs):]
}

// sealOf is what must not have changed since a checkpoint was known to be sound;
// empty if it has to be read.
func (ve *verifier) sealOf(c record.Checkpoint) string {
	i := slices.IndexFunc(ve.proofs, func(p proof) bool { return p.of(c) && time.Since(p.at) < proofHolds })
	if i < 0 {
		return ""
	}
	return ve.proofs[i].seal
}

// verify compares the checkpoint that a generation resumes from with what was committed.
func (ve *verifier) verify(at lane, a agent.Verify) {
	r := ve.runs.all[at.of]
	if nonce := a.Plan.World.Nonce; r == nil || r.nonce != nonce { // what was found of another's counts for nothing
		r = ve.runs.newRun(at.of, nonce, ve.runDir(at.of, nonce), agent.Absent)
	}
	prepare := r.order.Prepare
	r.order = ve.order(at.of, a.Spec, a.Plan)
	r.order.Prepare = prepare // a prepared run stays one
	task := dirblob.Verify{ManifestSHA256: a.Plan.Resume.ManifestSHA256, Quick: !a.Whole}
	if !a.Plan.Doubted {
		task.Seal = ve.sealOf(*a.Plan.Resume)
	}
	in := r.folder()
	keep, _ := ve.retention.kept(r)
	listed := ve.records.known(savesPart(at.of.Job))
	ctx, cancel := context.WithCancel(ve.ctx)
	r.resume.cancel = cancel
	ve.beside(at, func(context.Context) func() {
		defer cancel()
		begun := time.Now()
		answer, failed := ve.examine(ctx, in, task)
		again := false
		if failed == nil && a.Whole {
			failed, again = ve.retention.preflight(ctx, in, keep, listed)
		}
		if ctx.Err() != nil {
			return func() {} // cut short: the result is not wanted any more
		}
		return func() {
			r.changed, r.refused, r.resume.sound = time.Now(), failed, failed == nil && !again
			log := ve.logger(r.jg)
			switch {
			case failed != nil:
				ve.remember(*a.Plan.Resume, "")
				log.Error().Int64("step", a.Plan.Resume.Step).Str("reason", failed.Reason).Msg("cannot resume")
			case answer.Whole:
				ve.remember(*a.Plan.Resume, answer.Seal)
				log.Info().Int64("step", a.Plan.Resume.Step).Dur("took", time.Since(begun)).Msg("verified the checkpoint to resume from")
			}
		}
	})
}

// examine returns why the checkpoint cannot be resumed from here, nil if it can.
// One that differs is damaged for all nodes. One that cannot be read may only be
// out of this node's sight; but where rank 0's node sees a job's directory and
// not all of its checkpoint, a part of that is lost.
func (ve *verifier) examine(ctx context.Context, in folder, task dirblob.Verify) (dirblob.Answer, *record.Failed) {
	resume := *in.resume
	failed := func(kind record.FailureKind, format string, args ...any) (dirblob.Answer, *record.Failed) {
		return dirblob.Answer{}, &record.Failed{Kind: kind, Reason: fmt.Sprintf(format, args...), Rank: -1, At: time.Now()}
	}
	var err error
	if task.Dir, err = in.below(resume.Dir); err != nil {
		return failed(record.NodeRefused, "cannot resume from step %d: %v", resume.Step, err)
	}
	begun := time.Now()
	for {
		answer, err := ve.tasks.do(ctx, in, dirblob.Task{Root: in.root(), Verify: &task}, taskBound)
		var corrupt *checkpoint.CorruptError
		switch {
		case err == nil:
			return answer, nil
		case errors.As(err, &corrupt):
			return failed(record.CheckpointDamaged, "checkpoint of step %d is damaged: %v", resume.Step, corrupt)
		case time.Since(begun) >= unseenFor && !task.Quick && errors.Is(err, checkpoint.ErrAbsent):
			return failed(record.CheckpointDamaged, "checkpoint of step %d is damaged: %v (looked for %v)", resume.Step, err, unseenFor)
		case errors.Is(err, owned.ErrForeign): // which does not pass by itself
			return failed(record.NodeRefused, "cannot resume from step %d: %v", resume.Step, err)
		case time.Since(begun) >= unseenFor, !rest(ctx, seenAgain):
			return failed(precheck.FailureOf(err), "cannot read the checkpoint of step %d: %v", resume.Step, err)
		}
	}
}

// below is a committed checkpoint's directory relative to the job's.
func (f folder) below(dir string) (string, error) {
	rel, err := filepath.Rel(f.root(), dir)
	if err != nil || !filepath.IsAbs(dir) || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("checkpoint in %q does not lie below %s", dir, f.root())
	}
	return rel, nil
}
