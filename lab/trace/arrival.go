package trace

import (
	"fmt"
	"time"
)

// Arrival is one job as a trace has it. Times count from the file's own zero.
type Arrival struct {
	ID      string
	Line    int // of the file, for messages; 0 = in none
	Submit  time.Duration
	Workers int // devices that its user asked for
	// Duration is how long it runs on Workers devices without interruption;
	// 0 = not given: a profile has to tell.
	Duration time.Duration
	// Model and BatchSize are the keys into a profile; empty and 0 = not given.
	// Whether the batch is the whole world's or one device's is the trace's
	// own convention, the same as its profile's.
	Model      string
	BatchSize  int
	Iterations int64         // optimiser steps in all; 0 = not given
	Deadline   time.Duration // 0 = none; satisfied by an end at or before it
	Group      string        // virtual cluster or user; may be empty

	// IterationTime is one step's time on Workers devices (muri).
	IterationTime time.Duration
	// Adaptation is how its batch size changes while it runs: accordion, gns or static (shockwave).
	Adaptation string
	// BestEffort jobs have a deadline in the file that is not enforced (chronus).
	BestEffort bool
	// Soft is what finishing by each of several times is worth (chronus).
	Soft []SoftDeadline
	// DeviceMilli is the share of one device that it uses, 1000 = all of it; 0 = not given (pai).
	DeviceMilli int
}

// SoftDeadline is a time after submission and what finishing by then is worth.
type SoftDeadline struct {
	After time.Duration
	Value float64
}

// At says where a job of the trace is, for messages: file and line, or the
// trace's name if it was not read from a file.
func (f File) At(a Arrival) string {
	if a.Line == 0 {
		return f.Name
	}
	return fmt.Sprintf("%s:%d", f.Name, a.Line)
}

// File is a trace that was read without a fault.
type File struct {
	Name     string
	Format   string // the name of one of Formats
	Arrivals []Arrival
	// LeftOut counts rows of jobs that use no device, which some formats have.
	LeftOut int
}
