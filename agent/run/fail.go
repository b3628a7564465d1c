package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// tailWait is how long a failure's report waits for the worker's last words.
const tailWait = 250 * time.Millisecond

// failure is a worker's, until it is reported.
type failure struct {
	failed   *record.Failed // waits for the last words of its rank; nil = there is none
	local    int
	by       int64
	inHalt   bool      // it came in a halt
	exitedAt time.Time // when the last worker has ended
}

// noteExit takes in that a worker has ended. The first that failed ends the others, which would wait for it forever.
func (s *State) noteExit(f *Facts, local int) {
	w := f.worker(local)
	s.ranks[local].ended = true
	if w.ExitedAt.After(s.fails.exitedAt) {
		s.fails.exitedAt = w.ExitedAt
	}
	// A peer that fails later has often lost its connection to the first. In a halt the first failure kills no peer, so a
	// later worker that had too little memory was the cause.
	if w.Exit.Code == 0 || s.Killing() || s.fails.failed != nil && !w.OutOfMemory {
		return
	}
	s.fails.failed = &record.Failed{
		Kind: record.WorkerFailed, Reason: w.How + s.leftBefore(f), Rank: s.ranks[local].Rank, At: w.ExitedAt, OutOfMemory: w.OutOfMemory,
	}
	s.fails.local, s.fails.by = local, f.Now+int64(tailWait)
	// In a halt ranks stumble over each other's exits, and the others may still save.
	if s.fails.inHalt = s.wish.Halt != nil || f.Wish.Halt != nil; !s.fails.inHalt {
		s.kill(f, fmt.Sprintf("rank %d failed: %s", s.ranks[local].Rank, w.How))
	}
}

// leftBefore says which rank here had ended well when another failed, as peers do in the
// exchange of gradients that it no longer comes to; "": none.
func (s *State) leftBefore(f *Facts) string {
	for i := range s.ranks {
		if exit := f.worker(i).Exit; s.ranks[i].ended && exit != nil && exit.Code == 0 && exit.Signal == 0 {
			return fmt.Sprintf("; rank %d had ended with status 0 before: if there was more to train, ranks take unlike numbers of batches: "+
				"take those of bellows.Batches or bellows.MicroBatches, as many on every rank", s.ranks[i].Rank)
		}
	}
	return ""
}

// stepFailure reports a worker's failure once its last words are read.
func (s *State) stepFailure(f *Facts) {
	failed := s.fails.failed
	if failed == nil {
		return
	}
	// Peers of a rank that could not save often fail first, in the collective that it no longer comes to.
	local, unsaved := s.fails.local, slices.IndexFunc(f.Workers, func(w Worker) bool { return w.Unsaved != "" })
	if unsaved >= 0 {
		local = unsaved
	}
	looked := s.look(f, LookOutput)
	if (!looked || !f.worker(local).Silent) && f.Now < s.fails.by {
		s.at(s.fails.by)
		return
	}
	s.fails.failed = nil
	switch {
	case unsaved >= 0: // its file system is to blame
		w, remedy := f.Workers[unsaved], "make room for"
		if w.UnsavedFor == record.Transient {
			remedy = "look at the file system of"
		}
		failed.Kind, failed.Rank = w.UnsavedFor, s.ranks[unsaved].Rank
		failed.Reason = record.Reason(fmt.Sprintf("%s: %s $BELLOWS_CHECKPOINT_DIR, %s (%s)", w.Unsaved, remedy, s.order.Checkpoint, failed.Reason))
	case s.fails.inHalt && !failed.OutOfMemory:
		// Only a disk that takes no save and too little memory are news in a halt, and cost the save.
		return
	}
	failed.LogTail = f.worker(local).Lines
	for i, w := range f.Workers {
		if (i == local || w.Exit != nil && w.Exit.Code != 0) && ranOut(w.Lines) {
			failed.OutOfMemory = true
		}
	}
	if s.Report.Failed == nil {
		s.Report.Failed, s.keep = failed, true
	}
}

// ranOut reports whether a worker's last lines say that its device or its machine had no
// memory left for it, in PyTorch's words, CUDA's, HIP's or XLA's.
func ranOut(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return slices.ContainsFunc(ranOutWords, func(words string) bool { return strings.Contains(line, words) })
	})
}

var ranOutWords = []string{
	"OutOfMemoryError", "CUDA out of memory", "HIP out of memory", "CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY",
	"RESOURCE_EXHAUSTED: Out of memory", "RESOURCE_EXHAUSTED: Failed to allocate", "DefaultCPUAllocator: can't allocate memory",
}
