// Package goodput measures how fast a job trains, and models it against workers.
//
// Meter makes speeds of reports, robustly; Fit makes a Model of speeds, which tells
// the speed at any size with an interval; PredictEnd makes of that the moment of a
// job's end. Without measurements the model is the default one of Hu et al. All are
// pure functions of what was reported.
package goodput
