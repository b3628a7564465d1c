package verify

import (
	"fmt"
	"os"
	"path/filepath"
)

// batches is how many a rank has begun to train on in a world, as far as was seen.
type batches struct {
	begun int
	over  int // how many were when its loop last seemed to be over; -1: never
}

// batches are those of all ranks, as far as they were seen; the loop of a rank that has ended well is over.
func (w *world) batches(good []bool) []batches {
	all := make([]batches, w.size)
	for rank := range all {
		all[rank].over = -1
		text, err := os.ReadFile(filepath.Join(w.dir, "seen", fmt.Sprintf("rank-%05d.batches", rank)))
		if err != nil {
			continue // it has trained on none
		}
		var b batches
		if _, err = fmt.Sscan(string(text), &b.begun, &b.over); err != nil {
			continue
		}
		if good[rank] {
			b.over = b.begun
		}
		all[rank] = b
	}
	return all
}

// unlike names two ranks that take unlike numbers of batches; empty: none are known to. Ranks wait for each
// other in each batch, so one of them may always be a batch behind; but one whose loop is over takes no more.
func unlike(all []batches) string {
	for short, a := range all {
		if a.over != a.begun {
			continue
		}
		for long, b := range all {
			if b.begun > a.begun && b.over != a.over {
				return fmt.Sprintf("ranks take unlike numbers of batches: the loop of rank %d was over after %d, and rank %d has begun number %d: "+
					"take those of bellows.Batches or bellows.MicroBatches, as many on every rank; with a loader of your own give each rank as many samples, and drop_last=True",
					short, a.begun, long, b.begun)
			}
		}
	}
	return ""
}
