package blobtest

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// Bench is Blobs with a hand below them.
type Bench struct {
	Blobs checkpoint.Blobs
	// Write does what a training script does: it makes the directories, writes
	// the file, and syncs nothing.
	Write func(name string, data []byte) error
	// Link makes a symbolic link; nil where there are none.
	Link func(target, name string) error
}

// world is how many ranks save the suite's checkpoints, on two nodes.
const world = 4

func stepDir(step int64) string {
	return path.Join(layout.Generation(1, ""), layout.Step(step))
}

// content is what a rank saves at a step: of several sizes, none like another.
func content(step int64, rank int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "step %d rank %d\n", step, rank), 1+50*rank)
}

// train writes a step's files as the ranks do.
func (b Bench) train(step int64) error {
	for rank := range world {
		dir := path.Join(stepDir(step), layout.Rank(rank))
		if err := b.Write(path.Join(dir, "model.pt"), content(step, rank)); err != nil {
			return err
		}
		if err := b.Write(path.Join(dir, "optimizer/state.bin"), content(step+1000, rank)); err != nil {
			return err
		}
	}
	return nil
}

// offer does what agents do once the ranks have written: both nodes digest,
// rank 0's merges and writes the manifest, whose digest it may then offer. Long
// lists go by way of parts.
func offer(ctx context.Context, b checkpoint.Blobs, step int64, long bool) (manifestSHA256 string, err error) {
	parts, err := recorded(ctx, b, step, long)
	if err != nil {
		return "", err
	}
	return merge(b, step, parts)
}

// recorded is what the nodes record of a step.
func recorded(ctx context.Context, b checkpoint.Blobs, step int64, long bool) (parts []record.Saved, err error) {
	for _, ranks := range [][]int{{0, 1}, {2, 3}} {
		part := record.Saved{Dir: stepDir(step), Ranks: ranks, Samples: step * 256}
		if part.Files, err = checkpoint.Digest(ctx, b, part.Dir, ranks); err != nil {
			return nil, err
		}
		if long {
			if part.Part, err = checkpoint.WritePart(b, part.Dir, ranks, part.Files); err != nil {
				return nil, err
			}
			part.Ranks, part.Files = nil, nil
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func merge(b checkpoint.Blobs, step int64, parts []record.Saved) (manifestSHA256 string, err error) {
	title := checkpoint.Title{Job: "job-abcdef", Generation: 1, Step: step, WorldSize: world}
	_, manifestSHA256, err = checkpoint.Assemble(b, stepDir(step), title, parts)
	return manifestSHA256, err
}
