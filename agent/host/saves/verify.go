package saves

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/precheck"
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

// remember notes that a checkpoint is sound as long as its seal is not broken,
// so that who digested it a moment ago need not read it again to resume from it.
func (sv *Saves) remember(c record.Checkpoint, seal string) {
	sv.proofs = slices.DeleteFunc(sv.proofs, func(p proof) bool { return p.of(c) })
	if seal != "" {
		sv.proofs = append(sv.proofs, proof{c.Dir, c.ManifestSHA256, seal, time.Now()})
	}
	sv.proofs = sv.proofs[max(0, len(sv.proofs)-keptProofs):]
}

// sealOf is what must not have changed since a checkpoint was known to be sound;
// empty if it has to be read.
func (sv *Saves) sealOf(c record.Checkpoint) string {
	i := slices.IndexFunc(sv.proofs, func(p proof) bool { return p.of(c) && time.Since(p.at) < proofHolds })
	if i < 0 {
		return ""
	}
	return sv.proofs[i].seal
}

// Verify compares the checkpoint that a generation resumes from with what was committed. Then is called with why it cannot
// be resumed from; nil with sound: it can; nil without: it is to be looked at again. Cancel ends the work, and then is not
// called.
func (sv *Saves) Verify(at loop.Lane, g Generation, a agent.Verify, then func(failed *record.Failed, sound bool)) (cancel context.CancelFunc) {
	task := dirblob.Verify{ManifestSHA256: a.Plan.Resume.ManifestSHA256, Quick: !a.Whole}
	if !a.Plan.Doubted {
		task.Seal = sv.sealOf(*a.Plan.Resume)
	}
	in := g.folder()
	keep, _ := sv.kept(g)
	ctx, cancel := context.WithCancel(sv.Context())
	sv.Beside(at, func(context.Context) func() {
		defer cancel()
		begun := time.Now()
		answer, failed := sv.examine(ctx, in, task)
		again := false
		if failed == nil && a.Whole {
			failed, again = sv.preflight(ctx, in, keep, g.Listed)
		}
		if ctx.Err() != nil {
			return func() {} // cut short: the result is not wanted any more
		}
		return func() {
			log := sv.Logger(g.Of)
			switch {
			case failed != nil:
				sv.remember(*a.Plan.Resume, "")
				log.Error().Int64("step", a.Plan.Resume.Step).Str("reason", failed.Reason).Msg("cannot resume")
			case answer.Whole:
				sv.remember(*a.Plan.Resume, answer.Seal)
				log.Info().Int64("step", a.Plan.Resume.Step).Dur("took", time.Since(begun)).Msg("verified the checkpoint to resume from")
			}
			then(failed, failed == nil && !again)
		}
	})
	return cancel
}

// examine returns why the checkpoint cannot be resumed from here, nil if it can.
// One that differs is damaged for all nodes. One that cannot be read may only be
// out of this node's sight; but where rank 0's node sees a job's directory and
// not all of its checkpoint, a part of that is lost.
func (sv *Saves) examine(ctx context.Context, in Folder, task dirblob.Verify) (dirblob.Answer, *record.Failed) {
	resume := *in.Resume
	failed := func(kind record.FailureKind, format string, args ...any) (dirblob.Answer, *record.Failed) {
		return dirblob.Answer{}, &record.Failed{Kind: kind, Reason: fmt.Sprintf(format, args...), Rank: -1, At: time.Now()}
	}
	var err error
	if task.Dir, err = in.below(resume.Dir); err != nil {
		return failed(record.NodeRefused, "cannot resume from step %d: %v", resume.Step, err)
	}
	begun := time.Now()
	for {
		answer, err := sv.Tasks.Do(ctx, in, dirblob.Task{Root: in.Root(), Verify: &task}, taskBound)
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
		case time.Since(begun) >= unseenFor, !loop.Rest(ctx, seenAgain):
			return failed(precheck.FailureOf(err), "cannot read the checkpoint of step %d: %v", resume.Step, err)
		}
	}
}

// below is a committed checkpoint's directory relative to the job's.
func (f Folder) below(dir string) (string, error) {
	rel, err := filepath.Rel(f.Root(), dir)
	if err != nil || !filepath.IsAbs(dir) || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("checkpoint in %q does not lie below %s", dir, f.Root())
	}
	return rel, nil
}
