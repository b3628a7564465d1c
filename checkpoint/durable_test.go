package checkpoint_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/blobtest"
)

// What holds of a checkpoint on any Blobs holds on a disk in memory.
func TestCheckpointsOnADisk(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blobtest.Bench {
		d := blobtest.NewDisk()
		return blobtest.Bench{Blobs: d, Write: d.WriteFile}
	})
}

// A digest is the promise that the files are there after a power cut, with
// their names in all directories above them.
func TestDigestMakesDurable(t *testing.T) {
	const dir = "g1/step-5"
	d := disk(t, dir+"/rank-00000/model", dir+"/rank-00001/optimizer/state", dir+"/rank-00001/model")
	before, err := checkpoint.Digest(t.Context(), d, dir, []int{0, 1})
	if err != nil || len(before) != 3 {
		t.Fatalf("%v, %v", before, err)
	}
	if err = d.WriteFile(dir+"/rank-00000/late", []byte("x")); err != nil {
		t.Fatal(err)
	}
	d.PowerCut()
	after, err := checkpoint.Digest(t.Context(), d, dir, []int{0, 1})
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("digested %v; after the power cut there is %v, %v", before, after, err)
	}
}
