package record

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record/reason"
)

// Checkpoint is a committed (or offered) checkpoint.
type Checkpoint struct {
	Generation     cluster.Generation `json:"generation"` // which generation saved it
	Step           int64              `json:"step"`       // optimiser steps finished
	Samples        int64              `json:"samples"`    // samples consumed since the start of training; -1 = unknown
	Dir            string             `json:"dir"`        // absolute
	ManifestSHA256 string             `json:"manifest_sha256"`
	WorldSize      int                `json:"world_size"` // of the generation that saved it
	Bytes          int64              `json:"bytes"`
}

// Before reports whether it was saved before the other: by an older generation, or by the same at an earlier step.
func (c Checkpoint) Before(other Checkpoint) bool {
	return c.Generation < other.Generation || c.Generation == other.Generation && c.Step < other.Step
}

// BadCheckpoint records why a committed checkpoint was given up.
type BadCheckpoint struct {
	Checkpoint
	Reason     reason.Reason `json:"because,omitempty"`
	ReasonText string        `json:"reason"` // as State.ReasonText
	At         time.Time     `json:"at"`
}

// Suspect is a checkpoint that a single node finds damaged.
type Suspect struct {
	Checkpoint
	Node   cluster.NodeID `json:"node"`
	Reason string         `json:"reason"`
	At     time.Time      `json:"at"`
}

// File is one file of a checkpoint, its path relative to the checkpoint's directory.
type File struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Saved lists what a node's ranks saved at a step: fsynced and digested.
type Saved struct {
	Dir     string `json:"dir"`     // the checkpoint's directory, absolute
	Ranks   []int  `json:"ranks"`   // whose files these are
	Samples int64  `json:"samples"` // position in the data, in samples since the start of training; -1 = unknown
	Files   []File `json:"files"`
	// Part stands for Ranks and Files where those are too many for a record. An
	// agent of a version that does not know it finds the ranks missing, and
	// makes no checkpoint without their files.
	Part *Part `json:"part,omitempty"`
	// Lost says why there are none: the save could not be made durable. It is never
	// digested again, because an fsync that has failed once may succeed without
	// the data being there.
	Lost string `json:"lost,omitempty"`
	// Changed is when the newest of them was changed, in nanoseconds of the file
	// system's clock, before they were digested; 0 = unknown.
	Changed int64     `json:"changed,omitempty"`
	At      time.Time `json:"at"`
	Nonce   string    `json:"nonce,omitempty"`
}

// Of returns whose files these are.
func (s Saved) Of() []int {
	if s.Part != nil {
		return s.Part.Ranks
	}
	return s.Ranks
}

// Part is a node's list of files that lies in the checkpoint's directory until
// the manifest takes it up.
type Part struct {
	Ranks  []int  `json:"ranks"`  // whose files these are
	SHA256 string `json:"sha256"` // of the list
	Files  int    `json:"files"`  // how many, and their bytes
	Bytes  int64  `json:"bytes"`
}

// Offer is a whole checkpoint whose manifest lies on disk, durable, waiting for the leader's commit.
type Offer struct {
	Checkpoint
	At    time.Time `json:"at"`
	Nonce string    `json:"nonce,omitempty"`
}
