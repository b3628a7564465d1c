package blobtest

import (
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
)

func bench(d *Disk) Bench { return Bench{Blobs: d, Write: d.WriteFile} }

func TestDiskIsBlobs(t *testing.T) {
	Run(t, func(*testing.T) Bench { return bench(NewDisk()) })
}

// cutAt saves one checkpoint, cuts the power at the n-th step of saving
// another, and returns what is left of both.
func cutAt(t *testing.T, d *Disk, n int, long bool) (offered bool, firstErr, secondErr error) {
	t.Helper()
	b := bench(d)
	must(t, b.train(100))
	first, err := offer(t.Context(), d, 100, long)
	must(t, err)
	must(t, b.train(200))
	d.DieAt(n)
	second, err := offer(t.Context(), d, 200, long)
	d.PowerCut()
	_, firstErr = checkpoint.Verify(t.Context(), d, stepDir(100), first)
	if err != nil {
		return false, firstErr, nil
	}
	_, secondErr = checkpoint.Verify(t.Context(), d, stepDir(200), second)
	return true, firstErr, secondErr
}

func TestPowerCutAtEveryStep(t *testing.T) {
	for _, long := range []bool{false, true} {
		powerCuts(t, long)
	}
}

func powerCuts(t *testing.T, long bool) {
	for n := 0; ; n++ {
		offered, firstErr, secondErr := cutAt(t, NewDisk(), n, long)
		if firstErr != nil || secondErr != nil {
			t.Fatalf("power cut at step %d: the older checkpoint: %v; the offered one: %v", n, firstErr, secondErr)
		}
		if offered {
			if n < 20 {
				t.Fatalf("the checkpoint was offered after %d changes and syncs, fewer than there are files and directories", n)
			}
			return
		}
	}
}

// The check above would be worth nothing if it passed on a disk that keeps what was never synced.
func TestPowerCutOnADiskThatLies(t *testing.T) {
	d := NewDisk()
	d.Lies = true
	offered, firstErr, secondErr := cutAt(t, d, 1000, false)
	if !offered || firstErr == nil || secondErr == nil {
		t.Errorf("offered %t; the older checkpoint: %v; the offered one: %v", offered, firstErr, secondErr)
	}
}

// Whenever the power is cut in a merge, the next agent merges what is recorded, to the same manifest.
func TestMergingAgainAfterAPowerCutAtEveryStep(t *testing.T) {
	for n := 0; ; n++ {
		d := NewDisk()
		b := bench(d)
		must(t, b.train(100))
		parts, err := recorded(t.Context(), d, 100, true)
		must(t, err)
		d.DieAt(n)
		before, err := merge(d, 100, parts)
		d.PowerCut()
		after, errAgain := merge(d, 100, parts)
		if errAgain != nil || err == nil && after != before {
			t.Fatalf("power cut at step %d of the merge: %q, %v; then %q, %v", n, before, err, after, errAgain)
		}
		if _, errVerify := checkpoint.Verify(t.Context(), d, stepDir(100), after); errVerify != nil {
			t.Fatalf("power cut at step %d of the merge: %v", n, errVerify)
		}
		if left, _ := d.List(stepDir(100)); len(left) != world+1 {
			t.Fatalf("power cut at step %d of the merge: left behind: %v", n, left)
		}
		if err == nil && n > 20 {
			return
		}
	}
}
