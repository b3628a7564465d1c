package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/record"
)

// MinKeep is the smallest number of verified checkpoints that are kept,
// whatever is asked for: with one alone, a bad disk block loses the job.
const MinKeep = 2

// Choose returns the checkpoint to resume from: the newest in the history that
// is not known to be bad. There may be none.
func Choose(history []record.Checkpoint, bad []record.BadCheckpoint) (record.Checkpoint, bool) {
	good := slices.DeleteFunc(slices.Clone(history), func(c record.Checkpoint) bool {
		// The manifest's digest names a checkpoint; a step does not, because a
		// generation that fell back saves the same steps again.
		return slices.ContainsFunc(bad, func(b record.BadCheckpoint) bool { return b.ManifestSHA256 == c.ManifestSHA256 })
	})
	if len(good) == 0 {
		return record.Checkpoint{}, false
	}
	return slices.MaxFunc(good, older), true
}

// older orders checkpoints by age. A later generation has resumed from what it
// goes on from, so what it saves is newer even at a smaller step.
func older(a, b record.Checkpoint) int {
	return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Step, b.Step))
}

// Kept is a committed checkpoint in the eyes of Prune.
type Kept struct {
	record.Checkpoint
	Verified bool // read back and found to be as committed, since it was committed
	Pinned   bool // somebody wants it kept
}

// Prune returns which checkpoints may be deleted, oldest first: those that are
// older than at least keep verified ones (MinKeep if that is more), are not
// pinned, and share no directory with one that stays.
func Prune(history []Kept, keep int) []record.Checkpoint {
	sorted := slices.SortedFunc(slices.Values(history), func(a, b Kept) int { return older(b.Checkpoint, a.Checkpoint) })
	verified := 0
	var stay, out []record.Checkpoint
	for _, k := range sorted {
		if k.Pinned || verified < max(keep, MinKeep) {
			stay = append(stay, k.Checkpoint)
		} else {
			out = append(out, k.Checkpoint)
		}
		if k.Verified {
			verified++
		}
	}
	out = slices.DeleteFunc(out, func(c record.Checkpoint) bool {
		return slices.ContainsFunc(stay, func(s record.Checkpoint) bool {
			return s.Dir == c.Dir || strings.HasPrefix(s.Dir, c.Dir+"/")
		})
	})
	slices.Reverse(out)
	return out
}

// CheckRoom reports whether a disk with so many free bytes has room for
// another checkpoint like the last one, with a fifth to spare: checkpoints grow
// a little, and so does what else is on the disk.
func CheckRoom(freeBytes, lastBytes int64) error {
	need := lastBytes + lastBytes/5
	if freeBytes < need {
		return fmt.Errorf("%d bytes are free, the next checkpoint may need %d (the last one has %d): make room or choose another checkpoint directory",
			freeBytes, need, lastBytes)
	}
	return nil
}
