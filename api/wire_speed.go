package api

import "time"

// JobSpeed is what is known of a job's speed, measured in all of its generations
// and, before its first, by earlier jobs of its kind.
type JobSpeed struct {
	// Prediction is when it will end; nil = its work or its speed is unknown, or it has ended.
	Prediction *Prediction `json:"prediction,omitempty"`
	// Speeds are what it does at each of the sizes that it may have, or has been measured at, ascending.
	Speeds []SizeSpeed `json:"speeds,omitempty"`
	// Starts are what its last starts have cost, by generation.
	Starts []StartCost `json:"start_costs,omitempty"`
	// Batch is that of its present world; 0 = it has none.
	Batch int `json:"batch,omitempty"`
	// NoiseScale is its gradient noise scale in samples, as it told last; nil = it did not.
	NoiseScale *float64 `json:"noise_scale,omitempty"`
	// KindNoiseScale is that of a job of its kind, which counts as long as it has told none itself; nil = there is none.
	KindNoiseScale *float64 `json:"kind_noise_scale,omitempty"`
	// Goodput is the share of its time with devices in which it did steps that count; nil = unknown.
	Goodput *float64 `json:"goodput,omitempty"`
	// LossTrend is how its loss goes, as far as it is recorded; nil = it told too little.
	LossTrend *LossTrend `json:"loss_trend,omitempty"`
	// SpeedProblem says what is wrong with what its ranks report, or that they report nothing.
	SpeedProblem string `json:"speed_problem,omitempty"`
}

// LossTrend is how a job's loss goes.
type LossTrend struct {
	// Fall is by which part of all of its fall so far the loss falls in 100 steps.
	Fall float64 `json:"fall"`
	// Flat is why the loss does not tell that more steps gain anything; empty = they do.
	Flat string `json:"flat,omitempty"`
	// Remedy is what its owner can do then.
	Remedy string `json:"remedy,omitempty"`
}

// Prediction is when a job will end if it keeps its workers.
type Prediction struct {
	RemainingS float64   `json:"remaining_s"` // as of At
	End        time.Time `json:"end"`
	// In nine of ten cases it ends between EndLow and EndHigh; nil = too little is measured to say.
	EndLow  *time.Time `json:"end_low,omitempty"`
	EndHigh *time.Time `json:"end_high,omitempty"`
	At      time.Time  `json:"at"` // when it was predicted
}

// SizeSpeed is a job's speed at one size.
type SizeSpeed struct {
	Workers int `json:"workers"`
	// Batch is the best with so many workers, where it is known what another than the smallest
	// is worth; then steps are those at the smallest that steps at it are worth. Else 0.
	Batch          int     `json:"batch,omitempty"`
	StepsPerSecond float64 `json:"steps_per_second"`
	// With nine in ten chances it lies between Low and High.
	Low      float64 `json:"low,omitempty"`
	High     float64 `json:"high,omitempty"`
	Measured bool    `json:"measured"` // at this size; else predicted from others
}

// StartCost is what one start of a job has cost.
type StartCost struct {
	Generation uint64  `json:"generation"`
	Workers    int     `json:"workers"`
	Seconds    float64 `json:"seconds"` // without training, from the halt before it, or its plan, to its first step
}
