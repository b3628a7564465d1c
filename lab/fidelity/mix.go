package fidelity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Job is one job of a mix.
type Job struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"` // its submission, after the first job's
	// Steps is how many optimiser steps it takes; a step takes StepTime on one
	// worker, and StepTime/Speeds[i] on 2^i.
	Steps    int           `json:"steps"`
	StepTime time.Duration `json:"step_time"`
	Speeds   []float64     `json:"speeds"`
}

// Work is how long the job takes on one worker.
func (j Job) Work() time.Duration { return time.Duration(j.Steps) * j.StepTime }

// Mix is what is submitted to one cluster, in the order of submission.
type Mix struct {
	Number int   `json:"number"` // from 1
	Jobs   []Job `json:"jobs"`
}

// The bounds of what is drawn. With eight devices a mix takes about two minutes.
const (
	fewestJobs, mostJobs   = 6, 12
	arrivals               = 60 * time.Second // in which all jobs are submitted
	shortestWork, longWork = 20 * time.Second, 200 * time.Second
	leastStep, longestStep = 50 * time.Millisecond, 200 * time.Millisecond
	leastExponent          = 0.3 // of speed = workers^exponent: hardly gains from a second worker
	mostExponent           = 0.95
)

// Draw makes mix number n of a seed for a cluster of so many devices. Its work and
// the times between submissions are multiplied by scale.
func Draw(seed uint64, n, devices int, scale float64) Mix {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(rng.Float64()*float64(high-low))
	}
	m := Mix{Number: n}
	jobs := fewestJobs + rng.IntN(mostJobs-fewestJobs+1)
	gap := time.Duration(scale * float64(arrivals) / float64(jobs))
	at := time.Duration(0)
	for i := range jobs {
		j := Job{Name: fmt.Sprintf("m%d-%d", n, i), At: at.Round(time.Millisecond), StepTime: between(leastStep, longestStep).Round(time.Millisecond)}
		// Work is drawn evenly by its logarithm: a few long jobs among short ones, as in the traces.
		work := float64(shortestWork) * math.Pow(float64(longWork)/float64(shortestWork), rng.Float64())
		j.Steps = max(1, int(math.Round(scale*work/float64(j.StepTime))))
		exponent := leastExponent + rng.Float64()*(mostExponent-leastExponent)
		for k := 1; k <= devices; k *= 2 {
			j.Speeds = append(j.Speeds, math.Pow(float64(k), exponent))
		}
		m.Jobs = append(m.Jobs, j)
		at += between(gap/2, gap*3/2)
	}
	return m
}
