// Package forecast makes of what was measured of a job, and of what its owner has
// said, the numbers that decisions are made from: its work left, its speed at each
// size with the best batch for it, and what a start costs.
//
// It is the only place where the two are weighed. What is unknown stays unknown:
// then package policy assumes as much ahead as was attained.
package forecast
